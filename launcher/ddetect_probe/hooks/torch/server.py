"""Torch's own C++ server on a unix socket, so that the agent reads the Flight Recorder without the GIL.

Enters: RUN/sock. Leaves: a listening RUN/sock/<pid>.sock, owned by torch's threads. Never here: a Python handler (it
would wait for the GIL), a second server in one process, a line on the job's stderr.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Optional

from ddetect_probe import room, rundir, state

_opened_by = 0
_POOL = 8  # its threads, or one per core where there are more
_ERROR = 2  # c10's log levels: INFO 0, WARNING 1, ERROR 2


def open_server() -> None:
    """Open it, once per process; in a process without torch.distributed or without the folder, not at all."""
    global _opened_by
    if _opened_by == os.getpid() or state.writer is None:
        return
    try:
        import torch.distributed as dist

        if not dist.is_available():
            return
        from torch._C._distributed_c10d import _WorkerServer

        path = rundir.socket_path(state.run_dir, os.getpid())
        level = _log_level()
        if level is None or len(path.encode()) > 100 or not os.access(os.path.dirname(path), os.W_OK):
            return
        if room.free_threads() < threads_wanted():
            state.broken("server")
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
            server = state.without_signals(lambda: _WorkerServer(path, -1))
        finally:
            level.value = before
        # Its destructor would log three lines at exit: one reference more, and it never runs.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
        os.chmod(path, 0o660)
    except Exception:
        state.broken("server")


def threads_wanted() -> int:
    """What the servers of all ranks of this node may take, and as much again for the job."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return 2 * max(_POOL, os.cpu_count() or 0) * max(1, int(ranks) if ranks.isdigit() else 1)


def _log_level() -> Optional[Any]:
    import torch

    for name in ("libc10.so", "libc10.dylib"):
        path = os.path.join(os.path.dirname(torch.__file__), "lib", name)
        try:
            return ctypes.c_int.in_dll(ctypes.CDLL(path), "FLAGS_caffe2_log_level")
        except (OSError, ValueError):
            continue
    return None
