"""Load the probe from the folder it lies in, and start it when torch is there.

Enters: torch's entry point "torch.backends", or sitecustomize. Leaves: `ddetect_probe` in sys.modules, taken from two
folders up. Never here: a new entry on sys.path (ddetect's own packages stay out of the job), an exception.
"""

import importlib.util
import os
import sys


def load() -> None:
    """Make `import ddetect_probe` work in this interpreter, whether ddetect is installed here or not."""
    if "ddetect_probe" not in sys.modules:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        spec = importlib.util.spec_from_file_location(
            "ddetect_probe", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        if spec is None or spec.loader is None:
            return
        module = importlib.util.module_from_spec(spec)
        sys.modules["ddetect_probe"] = module
        spec.loader.exec_module(module)


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
