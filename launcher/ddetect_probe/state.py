"""The one page of this process, and who this process is to the job.

Enters: what the hooks learn. Leaves: slots of the page. Without a page (no room, no folder) the slots are ordinary
memory, so that no hook ever has to ask. Never here: torch, an exception that reaches the job.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from _thread import get_ident
from time import monotonic_ns
from types import FrameType
from typing import Any, Callable, List, Optional

from ddetect_probe import ancestors, page, rundir
from ddetect_probe.page import PageWriter

Slots = memoryview

run_dir: str = ""
writer: Optional[PageWriter] = None
raw: Any = bytearray(page.SIZE)  # the same memory as `slots`, for struct
slots: Slots = memoryview(raw).cast("q")
main: int = threading.main_thread().ident or 0
owner: int = main  # ident of the thread that lane 0 is of; lane.py moves it
floor: int = (
    0  # a token that is not below it is the owner's, and its leave may write the lane; lane.py lifts it
)
user_steps: bool = False  # the user says when a step is done; optimizers no longer count
undecided: bool = False  # no RANK and no process group yet: the first batch or step makes it rank 0 of 1
free_rows: List[int] = []
on_page: List[Callable[[], None]] = []  # run for each page that this process gets
in_child: List[Callable[[], None]] = []  # run in a forked child, after it has its own page
on_rank: List[Callable[[], None]] = []  # run when this process turns out to be a rank
shorten: List[
    Callable[[str], str]
] = []  # take out of an error's message what a framework puts before the reason
_broken: List[str] = []
_frameworks: List[str] = []


class Mirror:
    """What the page says last, kept in Python too: reading a slot back costs more than reading this."""

    __slots__ = ("batches", "before_step", "calls", "fetches", "p2p", "phase", "steps")

    def __init__(self) -> None:
        self.phase = self.before_step = self.batches = self.calls = self.fetches = self.p2p = self.steps = 0


mirror = Mirror()
LANE = page.LANES_AT + page.L_PHASE
_HELPS = (page.ROLE_CHILD, page.ROLE_LOADER_WORKER)
KEEP = 0x7FFF_FFFF_FFFF_FF00  # of a time, beside the phase; `&` with a negative number takes longer


def open_page(folder: str, role: int) -> None:
    """Give this process a page of its own; without room for one, plain memory."""
    global run_dir, writer, raw, slots, main
    run_dir = folder
    main = threading.main_thread().ident or get_ident()
    try:
        writer = PageWriter(os.path.join(folder, rundir.PAGES), role)
        raw, slots = writer.raw, writer.slots
        # A map closes its descriptor when it dies, in a forked child or at exit; by then the number may be the job's.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))
    except (OSError, ValueError):
        writer = None
        raw = bytearray(page.SIZE)
        slots = memoryview(raw).cast("q")
    mirror.__init__()  # type: ignore[misc]
    free_rows[:] = range(page.P2P_ROWS)
    for callback in on_page:
        callback()
    _say_broken()
    text("framework", " ".join(_frameworks))


def trains_with(framework: str, certain: bool = True) -> None:
    """Say whose hooks are in this process; the one that was seen at work comes first."""
    if certain or framework not in _frameworks:
        if framework in _frameworks[:1]:
            return
        if framework in _frameworks:
            _frameworks.remove(framework)
        _frameworks.insert(0 if certain else len(_frameworks), framework)
        text("framework", " ".join(_frameworks))


def first_framework() -> str:
    """The framework that this process trains with, as far as is known."""
    return _frameworks[0] if _frameworks else ""


def set_rank(rank: int, world: int, local_rank: int = -1) -> None:
    """Say which rank this process is."""
    slots[page.S_RANK] = rank
    slots[page.S_WORLD] = world
    if local_rank >= 0:
        slots[page.S_LOCAL_RANK] = local_rank


def become_rank(rank: int, world: int, local_rank: int = -1) -> None:
    """This process is a rank; number and world may still be unknown (-1). A helper of a rank stays one."""
    global undecided
    undecided = False
    if slots[page.S_ROLE] in _HELPS and ancestors.works_for_a_member(run_dir):
        return
    slots[page.S_ROLE] = page.ROLE_RANK
    if rank >= 0:
        set_rank(rank, world, local_rank)
    for callback in on_rank:
        callback()


def decide_alone(framework: str) -> None:
    """A process without a rank that trains without a process group is rank 0 of 1."""
    global undecided
    undecided = False
    trains_with(framework)
    if slots[page.S_ROLE] == page.ROLE_OTHER:
        slots[page.S_ROLE] = page.ROLE_RANK
        set_rank(0, 1, 0)


def text(name: str, value: str) -> bool:
    """Write a text, if there is a page; False when it had to be cut."""
    return writer.text(name, value) if writer is not None else True


def mark_exit(how: int) -> None:
    """Write the last word. The first one stays: what is raised at exit is a consequence."""
    if slots[page.S_EXIT] == page.ALIVE:
        slots[page.S_EXIT] = how
        slots[page.S_EXIT_NS] = monotonic_ns()


def mark_code(code: int) -> None:
    """Write what this process exits with: its parent may be the only one whom the kernel tells."""
    slots[page.S_EXIT_CODE] = (code & 0xFF) + 1


def without_signals(call: Callable[[], Any]) -> Any:
    """Call something that starts a thread, which inherits the mask: signals are for the job's own threads.

    A job that blocks a signal to wait for it would else be killed by the copy that a thread of ours lets in.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        return call()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ours(error: BaseException) -> bool:
    """Whether we caused an exception, in our code or what it called; if not, a signal handler of the job raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if _handles_signal(trace.tb_next.tb_frame, trace.tb_frame):
            return False
        trace = trace.tb_next
    return True


def _handles_signal(frame: FrameType, interrupted: FrameType) -> bool:
    """Python alone calls a function with a signal's number and then the very frame that it was called from."""
    arguments: List[Any] = []
    for value in frame.f_locals.values():
        arguments.extend(value if type(value) is tuple else (value,))  # def handler(*_)
    return any(
        later is interrupted and isinstance(arguments[before], int)
        for before, later in enumerate(arguments[1:])
    )


def broken(name: str) -> None:
    """Say in the page that a hook switched itself off, so that nobody takes silence for health."""
    if name not in _broken:
        _broken.append(name)
        _say_broken()


def _say_broken() -> None:
    slots[page.S_HOOKS_OFF] = len(_broken)
    text("hooks_off", " ".join(name.replace(" ", "_") for name in _broken))


def broken_hooks() -> List[str]:
    """The hooks that switched themselves off, for tests and for `ddetect doctor`."""
    return list(_broken)


def start_child() -> None:
    """In a forked child: a page of its own, of the same rank. Never raises."""
    global undecided, main
    main = get_ident()
    try:
        old = slots
        open_page(run_dir, page.ROLE_CHILD)
        undecided = False
        for slot in (page.S_RANK, page.S_LOCAL_RANK, page.S_WORLD, page.S_RESTART, page.S_FAULT_SIGNAL):
            slots[slot] = old[slot]
        for callback in in_child:
            callback()
    except Exception:
        broken("fork")


_registered = False


def follow_forks() -> None:
    """Arrange for forked children to get a page; once per interpreter."""
    global _registered
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=start_child)


def script() -> str:
    """The command line, as far as Python tells it."""
    return " ".join(getattr(sys, "orig_argv", None) or [sys.executable, *getattr(sys, "argv", [])])
