"""Load the probe from the folder it lies in, and start it when a framework is there.

Enters: a framework's entry point, or sitecustomize. Leaves: `ddetect_probe` in sys.modules, taken from two folders
up. Never here: a new entry on sys.path (ddetect's own packages stay out of the job), an exception.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ddetect_probe.hooks import Framework


def load() -> None:
    """Make `import ddetect_probe` work in this interpreter, whether ddetect is installed here or not."""
    if "ddetect_probe" not in sys.modules:
        # For the length of this import only. importlib.util would do without, but costs each Python 3.9 start 20 ms.
        folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        sys.path.insert(0, folder)
        try:
            import ddetect_probe  # noqa: F401
        finally:
            sys.path.remove(folder)


def wanted() -> bool:
    """Whether this process belongs to a job that ddetect watches, with its probe."""
    return bool(os.environ.get("DDETECT_RUN_DIR")) and os.environ.get("DDETECT_PROBE", "1") != "0"


def autoload() -> None:
    """Called by a framework at the end of its own import."""
    try:
        if wanted():
            load()
            from ddetect_probe.hooks import FRAMEWORKS

            for framework in FRAMEWORKS:
                if framework.calls_us and framework.module in sys.modules:
                    begin(framework)
    except Exception:
        pass  # the job runs without a probe


def await_frameworks() -> None:
    """Called by sitecustomize: start the probe after a framework's import, if that ever happens."""
    try:
        if os.environ.get("DDETECT_RUN_DIR"):
            load()
            if wanted():
                from ddetect_probe.hooks import FRAMEWORKS

                await_those(FRAMEWORKS)
    except Exception:
        pass


def await_those(frameworks: tuple[Framework, ...]) -> None:
    """Start the probe after the import of each of these."""
    from ddetect_probe.on_import import after_import

    for framework in frameworks:
        after_import(framework.module, lambda framework=framework: begin(framework))  # type: ignore[misc]


def begin(framework: Framework) -> None:
    """A framework has just been imported. Never raises."""
    try:
        from ddetect_probe import start

        start.on_import(framework)
    except Exception:
        pass
