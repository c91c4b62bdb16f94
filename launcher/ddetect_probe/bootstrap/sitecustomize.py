"""Python imports this at start, because its folder leads PYTHONPATH: wait for torch, then let the user's own run.

Enters: every interpreter of the job. Leaves: an import hook, and the sitecustomize that would have run without us,
run in our place. Never here: torch, output.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_one_behind() -> None:
    paths = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)  # what it raises is reported by site, as without us


try:
    import ddetect_probe_autoload  # type: ignore[import-not-found]

    ddetect_probe_autoload.await_torch()
except Exception:
    pass
_run_the_one_behind()
