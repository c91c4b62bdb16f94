"""What a process does, from one look at it. A Sighting enters, a Doing leaves.

Never here: other processes, other ranks, whether it is anybody's fault.
"""

from __future__ import annotations

import re

from ddetect.correlate.doing import Doing
from ddetect.correlate.telling import most_telling, waits_for_others
from ddetect.correlate.where import Whose, is_probe, whose_of
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.frameworks.patterns import FramePattern, StackPattern
from ddetect.model import DEVICE_LIBRARY, UNKNOWN, Frame, Phase, Role, Sighting, Thread
from ddetect.model.homes import CodeHomes, Owner

_ALWAYS_FILE_CALLS = frozenset({"flock", "fsync", "fdatasync", "sync", "syncfs", "openat", "open", "creat"})
_FILE_CALLS = re.compile(
    r"p?(read|write)v?(64|2)?|sendfile|copy_file_range|splice|fcntl|fallocate|f?truncate|getdents(64)?"
)
# From the beginning of the name: `do_epoll_wait` and `do_syscall_64` have Lustre's `ll_` inside, `kernfs_` has `nfs`.
_FILE_WCHAN = re.compile(
    r"^_*("
    r"flock|locks_lock|posix_lock|fcntl_setlk|nlmclnt_|wait_for_partner|fifo_open"  # locks, and opening a FIFO
    r"|p?nfs\d?_|rpc_wait|cifs|smb\d_|SMB\d_|netfs_|ceph|p9_|fuse_(?!dev)|request_wait_answer"  # a server's files
    r"|(ll|cl|osc|lov|mdc|ldlm|ptlrpc)_|gpfs|cxiWait|beegfs|Fhgfs"
    r"|jbd2|xfs_|xlog_|ext4_|btrfs_|f2fs_|(blk_)?io_schedule|folio_wait|wait_on_page|wait_on_buffer)"  # a disk's
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


def posture_of(thread: Thread, process_state: str) -> Posture:
    """How the kernel sees a thread; UNKNOWN when /proc said nothing."""
    state = thread.state or process_state
    call, target, wchan = thread.syscall, thread.target, thread.wchan
    if state in ("T", "t"):
        return Posture.FROZEN
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
    first = len(stack) - 1 if rule.at == "outermost" else 0
    for position, frame in enumerate(stack[:reach]):
        if position < first or not _fits(rule.frame, frame):
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
    thread: Thread,
    framework: Framework,
    *,
    process_state: str = "",
    role: Role = Role.RANK,
    whose: Whose | None = None,
) -> Doing:
    """Say what one thread does. Without `whose`, paths alone tell which lines are the user's."""
    whose = whose or whose_of(CodeHomes(), framework.patterns.packages)
    stack = _plain_stack(thread, role, framework)
    posture = posture_of(thread, process_state)
    if not stack and not thread.native:
        return Doing(Kind.UNREAD, posture, thread=thread)
    above_user = whose.line_at(stack)
    user = stack[above_user] if above_user < len(stack) else None
    library = user is not None and whose.owner(user) is Owner.LIBRARY
    lock, syncs = None, False
    if thread.native:
        lock = any(_NATIVE_LOCK.search(symbol) for symbol in thread.native)
        syncs = any(_NATIVE_DEVICE.search(symbol) for symbol in thread.native)
    for rule in framework.patterns.stacks:
        frame = _match(rule, stack, above_user)
        if rule.kind is Kind.FETCH and thread.phase == Phase.OTHER:
            continue  # a step called it, no input pipeline
        if frame is not None and not (syncs and rule.kind in _MAY_SYNC):
            op = frame.function if rule.op == "$function" else rule.op
            kind = _inside_step(thread, framework) if rule.kind is Kind.STEP else rule.kind
            return Doing(kind, posture, op, user, thread, lock, library)
    if thread.native and not lock and (kind := _inside_step(thread, framework)) is not Kind.STEP:
        return Doing(kind, posture, "", user, thread, lock, library)
    if syncs:
        return Doing(Kind.DEVICE_SYNC, posture, "", user, thread, lock, library)
    return Doing(Kind.USER, posture, "", user, thread, lock, library)


def _inside_step(thread: Thread, framework: Framework) -> Kind:
    """What its native stack tells of a thread that is below Python; STEP if nothing."""
    for pattern, kind in (
        (framework.native_call, Kind.COLLECTIVE),
        (framework.native_data, Kind.DATA_LOADING),
    ):
        if any(pattern.search(symbol) for symbol in thread.native):
            return kind
    return Kind.STEP


def classify(
    sighting: Sighting,
    framework: Framework,
    role: Role = Role.RANK,
    lane: int = 0,
    whose: Whose | None = None,
    *,
    starves: bool = True,
) -> Doing:
    """Say what a process, or one lane of it, does: what the thread does that speaks for it.

    `starves`: threads below Python may tell that a step waits for data; not in a process that computes.
    """

    def doing(thread: Thread) -> Doing:
        return classify_thread(thread, framework, process_state=sighting.state, role=role, whose=whose)

    told = next((thread for thread in sighting.threads if thread.lane == lane), None)
    if told is not None and not told.stack and not told.native:
        told = None  # it runs no Python now, so another one tells more
    main = sighting.main
    if main is not None and main.lane not in (UNKNOWN, lane):
        main = None  # another lane's
    thread = told or main
    if thread is None:
        state = sighting.state
        posture = {"D": Posture.DISK, "T": Posture.FROZEN, "t": Posture.FROZEN}.get(state, Posture.UNKNOWN)
        return Doing(Kind.UNREAD, posture)
    own = doing(thread)
    if role is not Role.RANK or len(sighting.threads) < 2 or (told is not None and not waits_for_others(own)):
        return own
    others = (one for one in sighting.threads if one is not thread and one.lane == UNKNOWN)
    return most_telling(own, [doing(one) for one in others], framework.between_lanes, starves=starves)
