"""One of ours beside the job, the agent or the coordinator: started, restarted when it dies, ended with the job.

The companion holds an exclusive lock file for as long as it lives (it inherits the descriptor). Several launchers of a
node may look after the same companion: whoever finds the lock free starts it. Its pid is in the lock file.
Never here: what the companion does.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from ddetect_probe import rundir

from ddetect_launcher.spawn import start_companion

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
SETTLED_S = 20.0  # one that lived so long starts afresh
LOG_LIMIT = 4 << 20
_SAID_AFTER_KILLS = 3
_LOOK_AGAIN_S = 0.02
_LOG_LINE = re.compile(
    r"[IWEF][0-9]{4} |[0-9]{4}-[0-9]{2}-[0-9]{2} "
)  # gRPC's own and ours: chatter before the reason

# The rest of the user's Python settings is meant for the job; and who carries a RANK or a task is taken for a rank.
_KEPT_PYTHON = {"PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX"}
_DROPPED = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "TF_CONFIG", "LD_PRELOAD"}
_SET = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONSAFEPATH": "1",  # a grpc.py in the user's folder is not ours
    "PYTHONDONTWRITEBYTECODE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def companion_environ(environ: Mapping[str, str], *, without_path: str) -> dict[str, str]:
    """The environment of a companion: the user's, without what is meant for the job and without the probe."""
    ours = {
        key: value
        for key, value in environ.items()
        if key not in _DROPPED and (not key.startswith("PYTHON") or key in _KEPT_PYTHON)
    }
    folders = [
        folder for folder in ours.pop("PYTHONPATH", "").split(os.pathsep) if folder and folder != without_path
    ]
    if folders:
        ours["PYTHONPATH"] = os.pathsep.join(folders)
    return {**ours, **_SET}


class Companion:
    """The agent or the coordinator, as a launcher sees it."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environ: Mapping[str, str],
        folder: str,
        say: Callable[[str], None],
    ) -> None:
        """Nothing is started before `tick`. `folder` is the run directory."""
        self.name = name
        self.log_path = rundir.log_path(folder, name)
        self.crashed = False
        self._argv = tuple(argv)
        self._environ = dict(environ)
        self._lock_path = rundir.lock_path(folder, name)
        self._say = say
        self._said = False
        self._child = 0
        self._log_from = 0
        self._started_at = 0.0
        self._next_try = 0.0
        self._backoff_s = FIRST_BACKOFF_S
        self._kills = 0

    def tick(self, now: float) -> None:
        """Notice a death and start it again when its time has come."""
        self._reap(now)
        if now < self._next_try or self._child:
            return
        lock = self._take_lock()
        if lock is None:
            return
        try:
            log = os.open(
                self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, rundir.FILE_MODE
            )
            try:
                if os.fstat(log).st_size > LOG_LIMIT:
                    os.ftruncate(log, 0)
                self._log_from = os.fstat(log).st_size
                self._child = start_companion(self._argv, self._environ, log=log, lock=lock)
            finally:
                os.close(log)
            self._started_at = now
        except OSError as error:
            self._put_off(now)
            self._complain(str(error))
        finally:
            os.close(lock)

    def end(self, deadline: float, hurry: Callable[[], bool]) -> None:
        """Ask it to finish, wait for it until the deadline, then end it. Works on one another launcher started."""
        pid = self._running_pid()
        if pid:
            _kill(pid, signal.SIGTERM)
        while self._is_running():
            if time.monotonic() >= deadline or hurry():
                pid = pid or self._running_pid()
                if pid:
                    _kill(pid, signal.SIGKILL)
                break
            time.sleep(_LOOK_AGAIN_S)
        self._wait_for_child()

    def _reap(self, now: float) -> None:
        if not self._child:
            return
        try:
            pid, status = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._child, 0
        if not pid:
            return
        self._child = 0
        self.crashed = True
        if now - self._started_at > SETTLED_S:
            self._backoff_s, self._kills = FIRST_BACKOFF_S, 0
        self._put_off(now)
        code = os.waitstatus_to_exitcode(status)
        self._kills += 1
        if code > 0:
            self._complain(self._last_words() or f"exit code {code}")
        elif self._kills >= _SAID_AFTER_KILLS:
            self._complain(f"ended {self._kills} times" + (f", by signal {-code}" if code else ""))

    def _put_off(self, now: float) -> None:
        self._next_try = now + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, LONGEST_BACKOFF_S)

    def _complain(self, reason: str) -> None:
        if not self._said:
            self._said = True
            self._say(f"the {self.name} does not run ({reason}); the job runs on and ddetect keeps trying.")

    def _last_words(self) -> str:
        """The reason a log gives: the end of a traceback, or else the first line (a hint may follow it)."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(self._log_from)
                text = log.read(1 << 16).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            return ""
        lines = [line for line in lines if not _LOG_LINE.match(line)] or lines
        line = lines[-1] if "Traceback (most recent call last)" in text else lines[0]
        return line.removeprefix("ddetect: ").rstrip(".")[:300]

    def _take_lock(self) -> int | None:
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, rundir.FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock

    def _is_running(self) -> bool:
        try:
            lock = self._take_lock()
        except OSError:
            return False
        if lock is None:
            return True
        os.close(lock)
        return False

    def _running_pid(self) -> int:
        """The pid of whoever holds the lock; 0 when nobody does or it has not said yet."""
        if not self._is_running():
            return 0
        try:
            with open(self._lock_path, encoding="ascii") as lock:
                return int(lock.read().strip() or 0)
        except (OSError, ValueError):
            return 0

    def _wait_for_child(self) -> None:
        """Collect our own child, and end it even if it gave up its lock; one that cannot die is left to init."""
        for attempt in range(100 if self._child else 0):
            try:
                pid, status = os.waitpid(self._child, os.WNOHANG)
            except ChildProcessError:
                break
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.crashed = self.crashed or code not in (0, -signal.SIGTERM, -signal.SIGKILL)
                break
            if attempt == 10:
                _kill(self._child, signal.SIGKILL)
            time.sleep(_LOOK_AGAIN_S if attempt else 0.001)
        self._child = 0


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
