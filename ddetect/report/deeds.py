"""What one member does, in words. A Deed enters, a verb phrase leaves: "sleeps in dataset.py:88 read_shard".

Also operations, and who waits in them. Never here: sentences about several (sentences.py), deciding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddetect.model import UNKNOWN, Names, Process
from ddetect.model.deeds import Act, CallMade, Deed, KernelCall, OpLabel, StuckIn
from ddetect.rankset import format_members
from ddetect.report.words import PLAIN, format_where, name_members, name_signal

_MOST_SAID = 200

_PLAIN = {
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
    Act.IS_IN_OPTIMIZER: "is in its optimizer",
    Act.IS_IN_STEP: "is inside a step of its own",
    Act.WAITS_FOR_BATCH: "waits for its next batch",
    Act.NEVER_STARTED: "has no process on any node: it was never started",
    Act.CANNOT_JOIN: "cannot join",
    Act.LEFT_GROUP: "has left its process group",
    Act.LEAVES: "is on its way out",
    Act.EXITED: "has exited",
    Act.LEFT_EARLY: "left its process group",
    Act.TIMED_OUT: "timed out",
    Act.WAS_KILLED: "was killed",
    Act.VANISHED: "vanished",
    Act.LOST_WORKER: "lost its loader worker",
    Act.FELL_SILENT: "fell silent with its node",
}
"""Acts that are said alike whatever they are about; the others are in `_about`."""

_AT = {
    Act.HAS_NOT_JOINED: ": it is in ",
    Act.LEFT_GROUP: ", and is in ",
    Act.IS_UNREAD: ", and was last seen in ",
    Act.WORKS_BEFORE_CALL: ", in ",
}
"""How the line follows, where it is not simply "in" it."""

_AFTER = {
    Act.IS_IN_STEP: " that does not end",
    Act.IS_IN_UNSEEN_CALL: ", which its recorder does not show",
    Act.WAITS_FOR_IDLE_LOADER: ", whose workers are all idle",
    Act.EXITED: ", without an error",
    Act.EXITED_WITH: " without an exception",
    Act.VANISHED: ", and its exit code was not seen",
    Act.RAISED_AND_STAYS: " and does not get out of its process",
}
"""What follows the line."""


def deed_words(deed: Deed, names: Names = PLAIN) -> str:
    """The verb, what it is about, and the line: whole with any of them, and without."""
    where = deed.where
    if where is None and deed.inner is not None and deed.act in (Act.LOADS_DATA, Act.WORKS_BEFORE_CALL):
        where = deed.inner.where
    at = format_where(where)
    said = _PLAIN.get(deed.act) or _about(deed, names, placed=bool(at) and deed.target is None)
    if deed.target is not None:
        said += _target(deed.target)
    if at and deed.act is not Act.NEVER_STARTED:
        said += _AT.get(deed.act, " in ") + at
    return said + (_AFTER.get(deed.act) or _by_whom(deed, names))


def _about(deed: Deed, names: Names, *, placed: bool) -> str:
    """The verb; `placed`: the line follows at once."""
    words, op = names.words, op_words(deed.op, names)
    match deed.act:
        case Act.IS_THERE:
            return _how(deed, names, placed=placed)
        case Act.IS_UNREAD:
            return f"could not be read ({deed.said})" if deed.said else "could not be read"
        case Act.LOADS_DATA:
            return f"loads data in its own process and {_how(deed.inner, names, placed=placed)}"
        case Act.WAITS_FOR_LOADER | Act.WAITS_FOR_IDLE_LOADER:
            return f"waits for {words.loader}"
        case Act.AWAITS_THREAD | Act.AWAITS_CHILD:
            return "waits"
        case Act.HAS_NOT_JOINED:
            return f"has not called {words.join}"
        case Act.IS_IN_CALL:
            return f"is in {op}"
        case Act.WORKS_BEFORE_CALL:
            return f"{_how(deed.inner, names, placed=True)} inside {op}, before the operation begins"
        case Act.IS_IN_UNSEEN_CALL:
            return f"is inside {op}"
        case Act.WAITS_IN:
            return f"waits in {op}"
        case Act.HAS_NOT_BEGUN:
            return f"has not begun {op}"
        case Act.HAS_NOT_FINISHED:
            return f"has not finished {op}"
        case Act.CALLED:
            return f"called {call_words(deed.call) if deed.call is not None else op}"
        case Act.RAISED:
            return f"raised {deed.said or 'an exception'}"
        case Act.RAISED_AND_STAYS:
            return f"raised {deed.said.splitlines()[0][:_MOST_SAID] if deed.said else 'an exception'}"
        case Act.WAS_ABORTED:
            return f"was aborted inside {op}"
        case Act.EXITED_WITH:
            return f"exited with code {deed.said}" if deed.said else "exited with an error code"
        case Act.WAS_ENDED_BY:
            return f"was ended by {name_signal(deed.signal)}"
        case _:
            raise AssertionError(f"{deed.act} has no words")


def _how(inner: Deed | None, names: Names, *, placed: bool) -> str:
    """How it does what it does, without the line, which is said of the whole."""
    if inner is None or inner.act is Act.IS_THERE:
        return "is" if placed else "does not go on"
    return deed_words(replace(inner, where=None), names)


def _by_whom(deed: Deed, names: Names) -> str:
    """Who keeps it waiting, and what that does; nothing of an act that is its own."""
    match deed.act:
        case Act.WAITS_FOR_LOADER:
            who = f": {_deliverer(deed, names)}"
        case Act.AWAITS_THREAD:
            thread = f"its thread {deed.thread!r}" if deed.thread else "another of its threads"
            who = f" for {thread}{_like_it(deed.others)}"
        case Act.AWAITS_CHILD:
            child = f"child process {deed.process.pid}" if deed.process is not None else "a child process"
            who = f" for {child}{_like_it(deed.others)}"
        case _:
            return ""
    return f"{who} {deed_words(deed.inner or Deed(Act.IS_THERE), names)}"


def _like_it(others: int) -> str:
    return f" and {others} more like it, each of which" if others else ", which"


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
    thread = f"its own thread {deed.thread!r}" if deed.thread else "a thread of its own"
    return f"{thread}, which {names.words.hands_over},"


def _target(target: KernelCall) -> str:
    return f" ({target.name}{f' on {target.path}' if target.path else ''})"
