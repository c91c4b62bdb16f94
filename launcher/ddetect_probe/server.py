"""Torch's own C++ server on a unix socket, so that the agent reads the Flight Recorder without the GIL.

Enters: RUN/sock. Leaves: a listening RUN/sock/<pid>.sock, owned by torch's threads. Never here: a Python handler (it
would wait for the GIL), a second server in one process, a line on the job's stderr.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Optional

from ddetect_probe import state

_opened_by = 0
_ERROR = 2  # c10's log levels: INFO 0, WARNING 1, ERROR 2


def open_server() -> None:
    """Open it, once per process; in a process without torch.distributed or without the folder, not at all."""
    global _opened_by
    if _opened_by == os.getpid() or state.writer is None:
        return
    try:
        from torch._C._distributed_c10d import _WorkerServer

        folder = os.path.join(state.run_dir, "sock")
        path = os.path.join(folder, f"{os.getpid()}.sock")
        level = _log_level()
        if level is None or len(path.encode()) > 100 or not os.access(folder, os.W_OK):
            return
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        _opened_by = os.getpid()
        # The constructor logs a warning. Raising c10's own level for these 0.2 ms is quieter than swapping fd 2,
        # which would lose what another thread writes meanwhile.
        before = level.value
        level.value = max(before, _ERROR)
        try:
            server = _WorkerServer(path, -1)
        finally:
            level.value = before
        # Its destructor would log three lines at exit: one reference more, and it never runs.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
        os.chmod(path, 0o660)
    except Exception:
        state.broken("server")


def _log_level() -> Optional[Any]:
    import torch

    for name in ("libc10.so", "libc10.dylib"):
        path = os.path.join(os.path.dirname(torch.__file__), "lib", name)
        try:
            return ctypes.c_int.in_dll(ctypes.CDLL(path), "FLAGS_caffe2_log_level")
        except (OSError, ValueError):
            continue
    return None
