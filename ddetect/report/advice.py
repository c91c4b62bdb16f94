"""What to do: one or two short imperative sentences per cause, and the concrete process.

Enters: the cause, the culprits with their deeds, who waits in what. Leaves: sentences. What the values tell is used;
where they tell nothing more, the cause's own sentence. Never here: deciding.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddetect.model import Cause, Culprit, Names
from ddetect.model.deeds import Act, Deed, StuckIn
from ddetect.report.words import PLAIN

_GENERAL = {
    Cause.DATA_LOADING: "Look at the line named: what does the dataset wait for there?",
    Cause.PYTHON_LOCK: "Find the thread that holds the lock (see the evidence) and release it there.",
    Cause.GIL_HELD: "Release the GIL around the C call named, or call it with a timeout.",
    Cause.FILE_IO: "Check the file system or the file lock that the process waits for.",
    Cause.BUILDING: "Let it finish if this is the first run; else look for a stale lock file in the build cache.",
    Cause.USER_CODE: "Look at the line named: {until_it_returns}",
    Cause.PROCESS_STOPPED: "Let the process go on, or find out who stopped it.",
    Cause.RENDEZVOUS: "Start the missing {noun}s, or look at the line at which they wait before {words.join}.",
    Cause.COLLECTIVE_MISMATCH: "Make every {noun} call the same operation here, with the same shape, dtype and root.",
    Cause.GROUP_ORDER_DEADLOCK: "Make every {noun} enter the groups in the same order.",
    Cause.P2P_DEADLOCK: "Let one side send first and receive second{or_use}.",
    Cause.ALL_ENTERED_NONE_LEFT: "Look below Python: network, firewalls, NICs{below}.",
    Cause.DEVICE_STUCK: "Look at the device of the {noun} named: nvidia-smi, dmesg for Xid errors, its NIC.",
    Cause.KILLED_BY_SIGNAL: "Look for who killed it: `dmesg` (OOM killer), the scheduler's log, a native crash.",
    Cause.PYTHON_EXCEPTION: "Fix the exception{and_others}.",
}
_IN_STACK = (Cause.DATA_LOADING, Cause.USER_CODE, Cause.PYTHON_LOCK, Cause.GIL_HELD)
_NO_PROCESS_HELPS = (Cause.KILLED_BY_SIGNAL, Cause.PYTHON_EXCEPTION, Cause.COLLECTIVE_MISMATCH)
_LOCKS = ("flock", "fcntl", "locks_lock", "posix_lock")


def advise(
    cause: Cause | None,
    culprits: tuple[Culprit, ...],
    held: tuple[StuckIn, ...] = (),
    names: Names = PLAIN,
    *,
    untold_step: bool = False,
) -> tuple[str, ...]:
    """What the reader can do now, most useful first. `untold_step`: nobody knows what a compiled step waits for."""
    if cause is None and untold_step and names.words.see_through:
        return (names.words.see_through,)
    if cause is None:
        return ("Run `ddetect doctor` on the node to see what could not be read, and why.",)
    first = culprits[0].deed if culprits else None
    lines = _of_values(cause, first, held, names)
    if not lines and cause in _GENERAL:
        words = names.words
        or_use = f", or use {words.exchange}" if words.exchange else ""
        below = f", {words.below}" if words.below else ""
        told = _of_others(culprits, held, names)
        lines = [_GENERAL[cause].format(noun=names.noun, words=words, or_use=or_use, below=below, **told)]
    return (*lines, *_of_processes(cause, culprits))


def _of_others(culprits: Sequence[Culprit], held: Sequence[StuckIn], names: Names) -> dict[str, str]:
    """What is said of the other members, where there are any: that they wait, only where somebody does."""
    others = f"other {names.noun}s"
    if held:
        return {
            "until_it_returns": f"the {others} cannot go on until it returns.",
            "and_others": f": the {others} wait because of it",
        }
    some = len({culprit.rank for culprit in culprits}) < names.ranks
    return {
        "until_it_returns": "what keeps it from returning?",
        "and_others": f"; errors of {others} follow from it" if some else "",
    }


def _of_values(cause: Cause, deed: Deed | None, held: Sequence[StuckIn], names: Names) -> list[str]:
    match cause:
        case Cause.LEFT_EARLY if deed is not None and deed.act in (Act.LEAVES, Act.LEFT_GROUP) and not held:
            return [_what_it_does_alone(deed)]
        case Cause.LEFT_EARLY:
            return [_how_it_left(deed), _what_it_misses(held, names)]
        case Cause.FILE_IO:
            return _file(deed)
        case Cause.DATA_LOADING if deed is not None and deed.act is Act.WAITS_FOR_IDLE_LOADER:
            return ["Find the batch that was lost: all loader workers wait for work (see the evidence)."]
        case Cause.DATA_LOADING if deed is not None and deed.act is Act.WAITS_FOR_BATCH:
            return [f"See why no batch comes{f': {names.words.starved}' if names.words.starved else ''}."]
        case Cause.RENDEZVOUS:
            return _rendezvous(deed, names)
        case Cause.KILLED_BY_SIGNAL if deed is not None and deed.act is Act.VANISHED:
            return [
                "Find out how it ended: its stderr, or its exit code in the launcher's log (137 or -9 is SIGKILL)."
            ]
        case Cause.PYTHON_EXCEPTION if deed is not None and deed.act is Act.EXITED_WITH:
            return [f"Find what exits with code {deed.said}: sys.exit, os._exit, or a library below Python."]
        case _:
            return []


def _what_it_does_alone(deed: Deed) -> str:
    """It leaves, and nobody waits for it: what is wrong is that it does not end."""
    if deed.where is None:
        return "See what keeps its process from ending: a thread that is no daemon, or an exit handler."
    return _how_it_left(deed)


def _how_it_left(deed: Deed | None) -> str:
    act, at_a_line = (deed.act, deed.where is not None) if deed is not None else (Act.EXITED, False)
    if act is Act.LEFT_GROUP and at_a_line:
        return "Look at the line named: it has left its process group and goes on there alone."
    if act in (Act.LEFT_GROUP, Act.LEFT_EARLY):
        return "See why it left its process group before the others: a return, an exception, fewer steps."
    if act is Act.LEAVES and at_a_line:
        return "Look at the line named: its program has ended, and runs that on its way out."
    if act is Act.LEAVES:
        return "See why its program ended before the others: a return, sys.exit(), an exception, fewer steps."
    return "See why its program ended before the others: a return, sys.exit(), fewer steps."


def _what_it_misses(held: Sequence[StuckIn], names: Names) -> str:
    """Others that wait where gradients meet had one more step; elsewhere it is the call that it did not come to."""
    words, missed = names.words, held[0].op.name if held else ""
    if not missed or missed == words.backward or missed in words.in_steps:
        how = f" ({words.even_steps})" if words.even_steps else ""
        return f"Give every {names.noun} the same number of steps{how}."
    return f"Let every {names.noun} call {missed}, or none."


def _file(deed: Deed | None) -> list[str]:
    while deed is not None and deed.inner is not None:
        deed = deed.inner
    target = deed.target if deed is not None else None
    if target is None:
        return []
    if target.name.startswith(_LOCKS):
        on = f" on {target.path}" if target.path else ""
        return [f"Find who holds the lock{on} (`lslocks`), and let go of it there."]
    if not target.path:
        return []
    return [
        f"See why {target.name} on {target.path} does not return: its file system, or the other end of a pipe."
    ]


def _rendezvous(deed: Deed | None, names: Names) -> list[str]:
    words = names.words
    match deed.act if deed is not None else Act.CANNOT_JOIN:
        case Act.NEVER_STARTED:
            return [f"Start the missing {words.member}s, or see why their launcher did not."]
        case Act.HAS_NOT_JOINED if deed is not None and deed.where is not None:
            return [f"Look at the line named: {words.join} is called only after it."]
        case Act.CANNOT_JOIN:
            return [
                f"Give all {words.member}s one address and port that each can reach, and the same number of them."
            ]
        case _:
            return []


def _of_processes(cause: Cause, culprits: Sequence[Culprit]) -> list[str]:
    """What to type; of several processes the first, but each that is stopped."""
    lines: list[str] = []
    for culprit in culprits[:3]:
        pid = culprit.process.pid if culprit.process else culprit.pid
        on = f" on {culprit.host}" if culprit.host else ""
        if pid is None or cause in _NO_PROCESS_HELPS:
            continue
        if cause is Cause.PROCESS_STOPPED:
            lines.append(f"Type `kill -CONT {pid}`{on}.")
            continue
        if cause in _IN_STACK:
            lines.append(f"See it yourself{on}: `py-spy dump --pid {pid}`.")
        elif cause is Cause.FILE_IO:
            lines.append(f"See what it has open{on}: `ls -l /proc/{pid}/fd` and `cat /proc/{pid}/stack`.")
        if culprit is culprits[0]:
            break
    return lines
