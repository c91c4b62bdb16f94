"""The run directory: made for a job on a node, shared by its launchers, removed by the last of them.

Enters: a name and the folders to try. Leaves: a `RunDir` whose members.lock this launcher holds (LOCK_SH). The agent
and the coordinator exit when they can take that lock exclusively, so it must never leak into the job: every
descriptor here is close-on-exec.
Never here: processes, reading what others write into the directory, how its files are called (ddetect_probe.rundir).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping

from ddetect_probe import rundir

ROOM_BYTES = 1 << 20  # a page is 24 KiB, and rank processes have loader workers
_TRIES = 50
_RETRY_S = 0.02


class RunDir:
    """A run directory this launcher is a member of."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._lock = lock

    def leave(self) -> bool:
        """Give up membership; True when no other launcher is left, and then the directory is ours to remove."""
        for _ in range(5):
            # A companion that looks at the lock in the moment of conversion may hold it briefly: look again.
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                time.sleep(_RETRY_S)
        os.close(self._lock)
        return False

    def remove(self) -> None:
        """Delete it; only after `leave` said True."""
        _remove(self.path)
        os.close(self._lock)
        _remove_user_folder(self.path)


def open_run_dir(name: str, environ: Mapping[str, str], *, shared: bool) -> tuple[RunDir, str]:
    """Make or join the run directory; also says, in a sentence, why it is not in memory ("" when it is).

    Raises OSError when no folder will take it.
    """
    problem = ""
    for folder in rundir.user_folders(environ):
        try:
            _make_user_folder(folder)
            path = os.path.join(folder, name)
            if len(path) > rundir.LONGEST_PATH:
                raise OSError(0, "path too long for a socket", path)
            _try_room(folder)
            run = _make_or_join(folder, path, shared=shared)
        except OSError as error:
            problem = problem or f"{os.path.dirname(folder)}: {error.strerror}"
            continue
        _remove_abandoned(folder)
        return run, f"no run directory in {problem}; ddetect uses {run.path}." if problem else ""
    raise OSError(0, f"no folder takes the run directory ({problem})")


def _make_user_folder(folder: str) -> None:
    try:
        os.mkdir(folder, rundir.FOLDER_MODE)
    except FileExistsError:
        pass
    # Anyone may make this name in a public folder before us: trust only a directory that is ours.
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(0, "belongs to somebody else", folder)
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(folder, rundir.FOLDER_MODE)


def _try_room(folder: str) -> None:
    """Allocate for real: free-space numbers do not know quotas, and a sparse file kills whoever maps it."""
    handle, path = tempfile.mkstemp(prefix=".room-", dir=folder)
    try:
        os.posix_fallocate(handle, 0, ROOM_BYTES)
    finally:
        os.close(handle)
        os.unlink(path)


def _make_or_join(folder: str, path: str, *, shared: bool) -> RunDir:
    for _ in range(_TRIES):
        run = _make(folder, path) or (_join(path) if shared else None)
        if run is not None:
            return run
        time.sleep(_RETRY_S)  # the last member of an earlier job is removing it
    raise OSError(0, "another job uses this name", path)


def _make(folder: str, path: str) -> RunDir | None:
    """Build it aside and move it in place locked, so that nobody ever sees it unlocked and takes it for abandoned."""
    aside = tempfile.mkdtemp(prefix=".new-", dir=folder)
    lock = -1
    try:
        for name in rundir.MADE_AT_ONCE:
            os.mkdir(os.path.join(aside, name), rundir.FOLDER_MODE)
        lock = rundir.open_lock(aside, create=True)
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.rename(aside, path)
        return RunDir(path, lock)
    except OSError as error:
        if lock >= 0:
            os.close(lock)
        shutil.rmtree(aside, ignore_errors=True)
        if os.path.isdir(path):
            remove_if_abandoned(path)
            return None
        raise error


def _join(path: str) -> RunDir | None:
    lock = -1
    try:
        lock = rundir.open_lock(path)
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Between open and flock the last member may have removed it: then this is the lock of a deleted file.
        if os.path.samestat(os.fstat(lock), os.stat(os.path.join(path, rundir.LOCK))):
            return RunDir(path, lock)
    except OSError:
        pass
    if lock >= 0:
        os.close(lock)
    return None


def _remove_abandoned(folder: str) -> None:
    """Remove what launchers left that were killed: a directory whose members.lock nobody holds."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        remove_if_abandoned(os.path.join(folder, name))


def remove_if_abandoned(path: str) -> None:
    """Remove a directory whose launchers are all gone; nothing happens to one that a launcher holds."""
    try:
        lock = rundir.open_lock(path)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(os.path.join(path, rundir.LOCK))):
            _remove(path)
    except OSError:
        pass
    finally:
        os.close(lock)
    _remove_user_folder(path)


def _remove(path: str) -> None:
    """Take the name away first: the next job of this name must not find half a directory."""
    gone = os.path.join(os.path.dirname(path), f".gone-{os.getpid()}-{os.path.basename(path)}")
    try:
        os.rename(path, gone)
    except OSError:
        gone = path
    shutil.rmtree(gone, ignore_errors=True)


def _remove_user_folder(path: str) -> None:
    try:
        os.rmdir(os.path.dirname(path))  # once it is empty
    except OSError:
        pass
