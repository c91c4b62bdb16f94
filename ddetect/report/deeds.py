"""What one member does, in words. A Deed enters, a verb phrase leaves: "sleeps in dataset.py:88 read_shard".

Also operations, and who waits in them. Never here: sentences about several (sentences.py), deciding.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddetect.model import UNKNOWN, Names, Process
from ddetect.model.deeds import Act, CallMade, Deed, KernelCall, OpLabel, StuckIn
from ddetect.rankset import format_members
from ddetect.report.words import PLAIN, format_where, name_members, name_signal

_MOST_SAID = 200

_PLAIN = {
    Act.IS_THERE: "is",
    Act.IS_BUSY: "is busy",
    Act.SLEEPS: "sleeps",
    Act.WAITS_ON_FUTEX: "waits on a lock or condition",
    Act.IS_IN_KERNEL: "is stuck in the kernel, state D",
    Act.WAITS_FOR_FILE: "waits for a file",
    Act.WAITS_FOR_INPUT: "waits for keyboard input",
    Act.WAITS_FOR_NETWORK: "waits for the network",
    Act.WAITS_FOR_PIPE: "waits for another process (a pipe)",
    Act.WAITS_FOR_CHILD: "waits for a child process",
    Act.IS_STOPPED: "is stopped (SIGSTOP)",
    Act.IS_TRACED: "is held by a debugger or tracer",
    Act.HOLDS_GIL: "holds the GIL",
    Act.IS_AT_DEBUGGER: "is at a debugger prompt",
    Act.COMPILES: "compiles",
    Act.SAVES: "saves or loads a checkpoint",
    Act.WAITS_FOR_LOCK: "waits for a lock or another thread",
    Act.WAITS_FOR_PROCESS: "waits for another process",
    Act.WAITS_FOR_ANSWER: "waits for a network answer",
    Act.WAITS_FOR_DEVICE: "waits for its device",
    Act.IS_IN_BACKWARD: "is in backward",
    Act.IS_IN_OPTIMIZER: "is in optimizer",
    Act.IS_IN_STEP: "is inside a step of its own that does not end",
    Act.WAITS_FOR_BATCH: "waits for its next batch",
    Act.NEVER_STARTED: "has no process on any node: it was never started",
    Act.CANNOT_JOIN: "cannot join",
    Act.LEFT_GROUP: "has left its process group",
    Act.LEAVES: "is on its way out",
    Act.EXITED: "has exited, without an error",
    Act.LEFT_EARLY: "left its process group",
    Act.TIMED_OUT: "timed out",
    Act.WAS_KILLED: "was killed",
    Act.VANISHED: "vanished, and its exit code was not seen",
    Act.LOST_WORKER: "lost its loader worker",
    Act.FELL_SILENT: "fell silent with its node",
}
"""Acts that are said alike whatever they are about; the others are in `_about`."""


def deed_words(deed: Deed, names: Names = PLAIN) -> str:
    """The verb, what it is about, and the line."""
    said = _PLAIN.get(deed.act) or _about(deed, names)
    if deed.target is not None:
        said += _target(deed.target)
    at = format_where(deed.where)
    if deed.act is Act.HAS_NOT_JOINED:
        return said + (f": it is in {at}" if at else "")
    if deed.act is Act.RAISED_AND_STAYS:
        return f"{said}{f' in {at}' if at else ''} and does not get out of its process"
    return said + (f" in {at}" if at else "")


def _about(deed: Deed, names: Names) -> str:
    words = names.words
    inner = deed_words(deed.inner, names) if deed.inner is not None else "is"
    match deed.act:
        case Act.IS_UNREAD:
            return f"could not be read ({deed.said})"
        case Act.LOADS_DATA:
            return f"loads data in its own process and {inner}"
        case Act.WAITS_FOR_LOADER:
            return f"waits for {words.loader}: {_deliverer(deed, names)} {inner}"
        case Act.WAITS_FOR_IDLE_LOADER:
            return f"waits for {words.loader}, whose workers are all idle"
        case Act.HAS_NOT_JOINED:
            return f"has not called {words.join}"
        case Act.IS_IN_CALL:
            return f"is in {op_words(deed.op, names)}"
        case Act.WORKS_BEFORE_CALL:
            return f"{inner} inside {op_words(deed.op, names)}, before the operation begins,"
        case Act.IS_IN_UNSEEN_CALL:
            return f"is inside {op_words(deed.op, names)}, which its recorder does not show"
        case Act.WAITS_IN:
            return f"waits in {op_words(deed.op, names)}"
        case Act.HAS_NOT_BEGUN:
            return f"has not begun {op_words(deed.op, names)}"
        case Act.HAS_NOT_FINISHED:
            return f"has not finished {op_words(deed.op, names)}"
        case Act.CALLED:
            return f"called {call_words(deed.call)}" if deed.call is not None else "called"
        case Act.RAISED:
            return f"raised {deed.said}"
        case Act.RAISED_AND_STAYS:
            return f"raised {deed.said.splitlines()[0][:_MOST_SAID] if deed.said else 'an exception'}"
        case Act.WAS_ABORTED:
            return f"was aborted inside {op_words(deed.op, names)}"
        case Act.EXITED_WITH:
            return f"exited with code {deed.said} without an exception"
        case Act.WAS_ENDED_BY:
            return f"ended by {name_signal(deed.signal)}"
        case _:
            raise AssertionError(f"{deed.act} has no words")


def op_words(op: OpLabel | None, names: Names = PLAIN) -> str:
    """Write "all_reduce #412 of default_pg"; without a name where such calls live."""
    if op is None or not op.name:
        return names.words.inside
    return op.name + (f" #{op.seq}" if op.seq else "") + (f" of {op.group}" if op.group else "")


def call_words(call: CallMade) -> str:
    """Write "all_reduce([[4]] Float SUM)"."""
    root = f"root {format_members((call.root,))}" if call.root != UNKNOWN else ""
    inside = " ".join(part for part in (call.sizes, call.dtypes, root, call.reduce_op) if part)
    return f"{call.op}({inside})" if inside else call.op


def waiting_words(waits: Sequence[StuckIn], names: Names = PLAIN, *, it: str = "") -> str:
    """Write "ranks 0-1,3 wait for it in all_reduce #412 of default_pg"; nothing when nobody waits."""
    parts = []
    for wait in waits[:2]:
        verb = "waits" if len(wait.members) == 1 else "wait"
        target = f" for {it}" if it else ""
        parts.append(f"{name_members(wait.members, names)} {verb}{target} in {op_words(wait.op, names)}")
    if len(waits) > 2:
        rest = {member for wait in waits[2:] for member in wait.members}
        parts.append(f"{name_members(rest, names)} in {len(waits) - 2} more operations")
    return "; ".join(parts)


def worker_words(process: Process) -> str:
    """Write "loader worker 3 (pid 4711)"."""
    number = f"loader worker {process.index}" if process.index >= 0 else "a loader worker"
    return f"{number} (pid {process.pid})"


def _deliverer(deed: Deed, names: Names) -> str:
    if deed.process is not None:
        return worker_words(deed.process)
    return f"its own thread {deed.thread!r}, which {names.words.hands_over},"


def _target(target: KernelCall) -> str:
    return f" ({target.name}{f' on {target.path}' if target.path else ''})"
