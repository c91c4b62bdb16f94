"""What a process does, from one look at it. A Sighting enters, a Doing leaves.

Never here: other processes, other ranks, whether it is anybody's fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddetect.correlate.where import innermost_user, is_probe, is_user
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.frameworks.patterns import FramePattern, StackPattern
from ddetect.model import DEVICE_LIBRARY, Frame, Role, Sighting, Thread

_ALWAYS_FILE_CALLS = frozenset({"flock", "fsync", "fdatasync", "sync", "syncfs", "openat", "open", "creat"})
_FILE_CALLS = re.compile(
    r"p?(read|write)v?(64|2)?|sendfile|copy_file_range|splice|fcntl|fallocate|f?truncate|getdents(64)?"
)
_FILE_WCHAN = re.compile(
    r"flock|locks_lock|posix_lock|fcntl_setlk|wait_for_partner|fifo_open|nfs|rpc_wait|fuse_|cifs|smb|gpfs|cxiWait|ll_|ceph"
    r"|jbd2|io_schedule|folio_wait|wait_on_page|xfs_|ext4_|beegfs"
)
_NATIVE_LOCK = re.compile(r"PyThread_acquire_lock|lock_PyThread_acquire|rlock_acquire|acquire_timed")
# Whoever stands inside the runtime in a job that does not move waits for the device, also where it only launches: the
# queue is full. Driver and runtime have no names for their own functions; then the library stands for them.
_NATIVE_DEVICE = re.compile(
    r"^(cuda|hip)[A-Z]\w*$|^cu(Stream|Event|Ctx|Mem|Launch)\w*$|_local_scalar_dense_(cuda|hip)|memcpy_and_sync"
    rf"|^{DEVICE_LIBRARY}"
)
_MAY_SYNC = frozenset({Kind.USER, Kind.OPTIMIZER, Kind.CHECKPOINT})
"""Kinds of code that may ask the device for a number: `.item()` and `.cpu()` have no frame of their own."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What a process does: the kind from its stack, the posture from the kernel, the user's line from both."""

    kind: Kind
    posture: Posture = Posture.UNKNOWN
    op: str = ""  # of a collective, p2p or rendezvous
    frame: Frame | None = None  # innermost frame of the user
    thread: Thread | None = None
    lock: bool | None = None  # native stack: True a Python lock, False something else, None not asked

    @property
    def waits_on_user_line(self) -> bool:
        """Asleep on a futex with nothing but the user's line to show: lock or not is undecided."""
        return self.kind is Kind.USER and self.posture is Posture.FUTEX and self.lock is None

    @property
    def may_wait_for_device(self) -> bool:
        """Busy at the user's line, with no native stack to tell: it may be `.item()`, which spins in the runtime."""
        code = self.kind in (Kind.USER, Kind.OPTIMIZER)
        return code and self.posture in (Posture.BUSY, Posture.POLL, Posture.UNKNOWN) and self.lock is None


UNREAD = Doing(Kind.UNREAD)


def posture_of(thread: Thread, process_state: str) -> Posture:
    """How the kernel sees a thread; UNKNOWN when /proc said nothing."""
    state = thread.state or process_state
    call, target, wchan = thread.syscall, thread.target, thread.wchan
    if state in ("T", "t"):
        return Posture.STOPPED
    if state == "D":
        return Posture.DISK
    if state == "R":
        return Posture.BUSY
    if call in ("clock_nanosleep", "nanosleep") or "nanosleep" in wchan:
        return Posture.ASLEEP
    if target.startswith(("/dev/pts/", "/dev/tty", "/dev/console")) or "n_tty_read" in wchan:
        return Posture.TERMINAL
    if call in _ALWAYS_FILE_CALLS or _FILE_WCHAN.search(wchan):
        return Posture.FILE
    if (
        _FILE_CALLS.fullmatch(call)
        and target.startswith("/")
        and not target.startswith(("/dev/", "/proc/", "/sys/"))
    ):
        return Posture.FILE
    if target.startswith("socket:") or call in (
        "recvfrom",
        "recvmsg",
        "sendto",
        "sendmsg",
        "connect",
        "accept",
        "accept4",
    ):
        return Posture.SOCKET
    if target.startswith("pipe:") or "pipe_read" in wchan or "pipe_write" in wchan:
        return Posture.PIPE
    if call in ("wait4", "waitid") or wchan == "do_wait":
        return Posture.CHILD
    if call == "futex" or "futex" in wchan:
        return Posture.FUTEX
    if "poll" in call or "select" in call or "poll" in wchan or "select" in wchan:
        return Posture.POLL
    return Posture.BUSY if thread.active and not state else Posture.UNKNOWN


def _fits(pattern: FramePattern, frame: Frame) -> bool:
    return pattern.file.search(frame.file) is not None and pattern.function.search(frame.function) is not None


def _match(rule: StackPattern, stack: tuple[Frame, ...], above_user: int) -> Frame | None:
    reach = {"innermost": 1, "above_user": above_user}.get(rule.at, len(stack))
    for position, frame in enumerate(stack[:reach]):
        if not _fits(rule.frame, frame):
            continue
        if rule.under is None or any(_fits(rule.under, outer) for outer in stack[position + 1 :]):
            return frame
    return None


def _plain_stack(thread: Thread, role: Role, framework: Framework) -> tuple[Frame, ...]:
    """Drop the probe's frames, and of a forked loader worker everything that it copied from its parent."""
    stack = tuple(frame for frame in thread.stack if not is_probe(frame))
    if role is Role.LOADER_WORKER:
        for position, frame in enumerate(stack):
            if framework.worker_loop.search(f"{frame.file}:{frame.function}"):
                return stack[: position + 1]
    return stack


def classify_thread(
    thread: Thread, framework: Framework, *, process_state: str = "", role: Role = Role.RANK
) -> Doing:
    """Say what one thread does."""
    stack = _plain_stack(thread, role, framework)
    posture = posture_of(thread, process_state)
    if not stack and not thread.native:
        return Doing(Kind.UNREAD, posture, thread=thread)
    above_user = next(
        (n for n, frame in enumerate(stack) if is_user(frame, framework.patterns.packages)), len(stack)
    )
    user = innermost_user(stack, framework.patterns.packages)
    lock, syncs = None, False
    if thread.native:
        lock = any(_NATIVE_LOCK.search(symbol) for symbol in thread.native)
        syncs = any(_NATIVE_DEVICE.search(symbol) for symbol in thread.native)
    for rule in framework.patterns.stacks:
        frame = _match(rule, stack, above_user)
        if frame is not None and not (syncs and rule.kind in _MAY_SYNC):
            op = frame.function if rule.op == "$function" else rule.op
            return Doing(rule.kind, posture, op, user, thread, lock)
    if thread.native and any(framework.native_call.search(symbol) for symbol in thread.native) and not lock:
        return Doing(Kind.COLLECTIVE, posture, "", user, thread, lock)
    if syncs:
        return Doing(Kind.DEVICE_SYNC, posture, "", user, thread, lock)
    return Doing(Kind.USER, posture, "", user, thread, lock)


def classify(sighting: Sighting, framework: Framework, role: Role = Role.RANK) -> Doing:
    """Say what a process does: what its main thread does."""
    main = sighting.main
    if main is None:
        state = sighting.state
        posture = {"D": Posture.DISK, "T": Posture.STOPPED, "t": Posture.STOPPED}.get(state, Posture.UNKNOWN)
        return Doing(Kind.UNREAD, posture)
    return classify_thread(main, framework, process_state=sighting.state, role=role)
