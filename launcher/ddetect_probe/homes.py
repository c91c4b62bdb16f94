"""Where code lives in this interpreter, and what `__main__` is: whose a line is gets decided elsewhere, from this.

Enters: sys.path, the standard library's folder, `__main__`. Leaves: RUN/homes/HASH.json, one file for all ranks that
say the same. Written by the ticking thread. Never here: importlib.metadata and sysconfig (slow, and sysconfig's first
use is no business of two threads at once), a search of folders, an exception that reaches the job.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from typing import Any, Dict

from ddetect_probe import beat, rundir, state

_AGAIN = 10  # ticks: a spawned child learns late what its `__main__` is
_MOST_FOLDERS = 64
_ticks = 0


def tell() -> None:
    """Write at the first tick, and once more when the program has begun; then never again."""
    global _ticks
    _ticks += 1
    if _ticks >= _AGAIN:
        beat.each_tick.remove(tell)
    if _ticks in (1, _AGAIN):
        try:
            _write(os.path.join(state.run_dir, rundir.HOMES), json.dumps(facts()).encode("utf-8", "replace"))
        except OSError:  # no room: paths alone tell then, and nobody is blind for it
            pass


def facts() -> Dict[str, Any]:
    """What is known without looking anywhere."""
    names = getattr(
        sys.modules.get("__main__"), "__dict__", {}
    )  # not getattr: a module's may run the job's code
    file, module = names.get("__file__"), getattr(names.get("__spec__"), "name", None)
    folders = [path for path in sys.path if isinstance(path, str)][:_MOST_FOLDERS]
    return {
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "stdlib": [os.path.dirname(os.__file__)],
        "site": [path for path in folders if path.rstrip("/").endswith(("site-packages", "dist-packages"))],
        "main": os.path.abspath(file) if isinstance(file, str) else "",
        "module": module if isinstance(module, str) else "",
    }


def _write(folder: str, said: bytes) -> None:
    """Whole or not at all; who comes second finds it written."""
    path = os.path.join(folder, f"{zlib.crc32(said):08x}.json")
    if os.path.exists(path):
        return
    os.makedirs(folder, mode=rundir.FOLDER_MODE, exist_ok=True)
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "wb") as file:
        file.write(said)
    os.replace(unfinished, path)
