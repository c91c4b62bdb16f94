"""Python imports this at start, because its folder leads PYTHONPATH: wait for a framework, then let the user's own run.

Enters: every interpreter of the job, Python 2 included. Leaves: an import hook, and the sitecustomize that would have
run without us, run in our place. Never here: a framework, output, syntax that Python 2 does not know.
"""

import os
import sys

_HERE = os.path.realpath(os.path.dirname(__file__))


def _begin():  # type: () -> bool
    """Let one ddetect of all that are on the path wait for frameworks; False if this very file ran before."""
    seen = sys.__dict__.setdefault("_ddetect_sitecustomize", [])
    if _HERE in seen:
        return False
    seen.append(_HERE)
    if len(seen) == 1:
        try:
            import ddetect_probe_autoload  # type: ignore[import-not-found]

            ddetect_probe_autoload.await_frameworks()
        except Exception:
            pass
    return True


def _run_the_one_behind():  # type: () -> None
    ours = [path for path in sys.path if os.path.isabs(path) and os.path.realpath(path) == _HERE]
    behind = sys.path[sys.path.index(ours[0]) :] if ours else sys.path
    paths = [path for path in behind if path not in ours]
    try:
        from importlib.machinery import PathFinder
    except ImportError:
        _run_in_python_2(paths)
        return
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)  # what it raises is reported by site, as without us


def _run_in_python_2(paths):  # type: (list[str]) -> None
    imp = __import__("imp")  # gone since Python 3.12
    try:
        found = imp.find_module("sitecustomize", paths)
    except ImportError:
        return
    # Held until the end: Python 2 empties the globals of a module that is dropped.
    us = sys.modules.pop("sitecustomize", None)
    imp.load_module("sitecustomize", *found)
    del us


if _begin():
    _run_the_one_behind()
