"""Load the probe from the folder it lies in, and start it when torch is there.

Enters: torch's entry point "torch.backends", or sitecustomize. Leaves: `ddetect_probe` in sys.modules, taken from two
folders up. Never here: a new entry on sys.path (ddetect's own packages stay out of the job), an exception.
"""

import os
import sys


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


def autoload() -> None:
    """Called by torch at the end of its own import."""
    try:
        if os.environ.get("DDETECT_RUN_DIR") and os.environ.get("DDETECT_PROBE", "1") != "0":
            load()
            from ddetect_probe import start

            start.on_torch()
    except Exception:
        pass  # the job runs without a probe


def await_torch() -> None:
    """Called by sitecustomize: start the probe after `import torch`, if that ever happens."""
    try:
        if os.environ.get("DDETECT_RUN_DIR"):
            load()
            if os.environ.get("DDETECT_PROBE", "1") != "0":
                from ddetect_probe.on_import import after_import

                after_import("torch", autoload)
    except Exception:
        pass
