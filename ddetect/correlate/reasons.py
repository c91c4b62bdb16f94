"""Why a rank does not come: its own sighting gives the cause. A Scene and a rank enter, a Reason leaves.

Never here: other ranks. Whether anybody waits for this one was decided before.
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.correlate.classify import classify_thread
from ddetect.correlate.scene import Scene, SeenProcess
from ddetect.correlate.sights import Reason, reason_of, sight_lines, sits, target_of
from ddetect.correlate.telling import Work, awaits, child_works, thread_works
from ddetect.correlate.where import format_stack, where_of
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.model import UNKNOWN, Cause, Phase, Process, Proof, Role, Thread, rank_of
from ddetect.model.deeds import Act, Deed, OpLabel
from ddetect.report.words import format_where

TICK_LOST_S = 2.0
"""The probe's thread ticks twice a second; this long without a tick, Python does not run."""

EXIT_TAKES_S = 5.0
"""A process that raised ends its loader workers (some wait 5 s for one) and flushes; only then does it hang."""

MOST_CHILDREN = 6
"""Child processes that are shown when a rank waits for one of them."""

MOST_EXPLAINED = 512
"""More culprits than this are one class to a reader: the rest is not looked into."""


def explain(scene: Scene, rank: int) -> Reason:
    """Say what this rank does, from its stack, its page, /proc and its loader workers."""
    seen = scene.rank_process(rank)
    phase = scene.phase_of(rank)
    if seen.frozen:
        return _stopped(scene, seen)
    held = _gil(seen, scene)
    if held is not None:
        return held
    if phase in (Phase.LEAVING, Phase.EXITING) or seen.doing.kind is Kind.TEARDOWN:
        return _leaving(scene, seen, phase)
    if phase is None and _runs_exit_handlers(scene, seen):
        return _leaving(scene, seen, None)
    if seen.doing.kind in (Kind.DATA_LOADING, Kind.FETCH) or (
        phase is Phase.DATA and seen.doing.kind in _VAGUE
    ):
        return _data(scene, seen)
    if seen.in_disk_wait:
        return reason_of(scene, seen, Cause.FILE_IO, Deed(Act.IS_IN_KERNEL, target=target_of(seen)))
    if seen.doing.waiter is not None:
        waits = replace(seen, doing=seen.doing.waiter)
        return _awaiting(scene, waits, [seen], _of_work(scene, seen))
    at_work = _who_works(scene, seen)
    if at_work is not None:
        return at_work
    if seen.doing.kind is Kind.SUBPROCESS or seen.doing.posture is Posture.CHILD:
        reason = _by_kind(scene, seen)
        children = scene.others_of(rank, Role.CHILD)[:MOST_CHILDREN]
        return replace(
            reason,
            evidence=reason.evidence
            + tuple(line for one in children for line in sight_lines(one, scene.names)),
        )
    return _by_kind(scene, seen)


_VAGUE = frozenset({Kind.UNREAD, Kind.USER, Kind.LOCK, Kind.SUBPROCESS})


# ---------------------------------------------------------------- cases


def _stopped(scene: Scene, seen: SeenProcess) -> Reason:
    act = Act.IS_TRACED if set(seen.states) == {"t"} else Act.IS_STOPPED
    return reason_of(scene, seen, Cause.PROCESS_STOPPED, Deed(act), proof=Proof.STRUCTURAL)


def _gil(seen: SeenProcess, scene: Scene) -> Reason | None:
    """A tick that stopped, together with a thread that owns the GIL: alone, neither proves it."""
    owner = next((thread for thread in seen.sighting.threads if thread.owns_gil), None)
    if owner is None or seen.in_disk_wait or not owner.stack:
        return None
    silent = TICK_LOST_S < seen.tick_age_s < float("inf")
    unpaged = seen.tick_age_s == float("inf") and not owner.active and len(scene.snapshot.samples) > 1
    if not silent and not (unpaged and _owns_in_every_look(scene, seen, owner)):
        return None
    where = scene.whose.where(scene.whose.line(owner.stack))
    more: tuple[str, ...] = (f"thread {owner.name!r} owns the GIL: {format_stack(owner.stack)}",)
    if silent:
        more += (f"no other Python thread of this process has run for {seen.tick_age_s:.1f} s",)
    return reason_of(scene, seen, Cause.GIL_HELD, Deed(Act.HOLDS_GIL), where=where, more=more, clear=silent)


def _owns_in_every_look(scene: Scene, seen: SeenProcess, owner: Thread) -> bool:
    looks = 0
    for sample in scene.snapshot.samples:
        for row in range(len(sample)):
            if sample.pid[row] == seen.pid and sample.rank[row] == rank_of(seen.rank):
                threads = sample.sightings[int(sample.sighting[row])].threads
                if not any(t.owns_gil and not t.active and t.stack == owner.stack for t in threads):
                    return False
                looks += 1
    return looks > 1


def _leaving(scene: Scene, seen: SeenProcess, phase: Phase | None) -> Reason:
    raised = seen.sighting.raised
    if raised is not None and raised.fatal:
        overdue = scene.phase_age_s[scene.position(seen.rank)] >= EXIT_TAKES_S
        stuck = overdue and "R" not in seen.states  # on an overloaded machine it still works on its end
        deed = Deed(Act.RAISED_AND_STAYS, scene.whose.where(raised.where), said=raised.exception)
        proof = Proof.STRUCTURAL if stuck else Proof.TIME
        reason = reason_of(scene, seen, Cause.PYTHON_EXCEPTION, deed, proof=proof)
        return replace(reason, deed=deed, where=deed.where or reason.where)
    deed = Deed(Act.LEFT_GROUP if phase is Phase.LEAVING else Act.LEAVES)
    # Without a page nobody tells what it raised before it left.
    return reason_of(scene, seen, Cause.LEFT_EARLY, deed, proof=Proof.STRUCTURAL, clear=phase is not None)


def _runs_exit_handlers(scene: Scene, seen: SeenProcess) -> bool:
    """The program's own frame is gone from under its main thread, while other ranks still have theirs."""
    main = seen.sighting.main
    if main is None or not main.stack or main.stack[-1].function in _BEGINNINGS:
        return False
    others = (scene.rank_process(int(rank)).sighting.main for rank in scene.members[scene.live][:_COMPARED])
    return any(
        other.stack[-1].function == "<module>" for other in others if other is not None and other.stack
    )


_BEGINNINGS = frozenset({"<module>", "_bootstrap", "_bootstrap_inner", "_run_code", "spawn_main"})
_COMPARED = 64


def _data(scene: Scene, seen: SeenProcess) -> Reason:
    """The rank waits for a batch: which loader worker does not deliver, or which line of the dataset is it in?"""
    workers = scene.others_of(seen.rank, Role.LOADER_WORKER)
    if (seen.doing.kind is Kind.FETCH and (seen.doing.frame is not None or not workers)) or not workers:
        seen = seen if seen.doing.kind is Kind.FETCH else _fetching_thread(scene, seen) or seen
        loads = Deed(Act.LOADS_DATA, inner=sits(seen))
        if seen.in_disk_wait or seen.doing.posture is Posture.FILE:
            return reason_of(scene, seen, Cause.FILE_IO, loads)
        if seen.doing.kind is Kind.FETCH:
            return reason_of(scene, seen, Cause.DATA_LOADING, loads)
        return reason_of(scene, seen, Cause.DATA_LOADING, Deed(Act.WAITS_FOR_BATCH), clear=False)
    rank_line = sight_lines(seen, scene.names)
    stuck = next((one for one in workers if one.frozen), None)
    if stuck is not None:
        return _for_loader(stuck, _stopped(scene, stuck), rank_line)
    busy = [one for one in workers if one.doing.kind is not Kind.LOADER_IDLE]
    fetching = [one for one in busy if one.fetching != UNKNOWN and one.fetch_age_s < float("inf")]
    if fetching:
        one = max(fetching, key=lambda seen: (seen.fetch_age_s, -seen.index))
    elif busy:
        one = max(busy, key=lambda seen: (seen.in_disk_wait, seen.doing.kind is Kind.FETCH, -seen.index))
    elif (thread := _fetching_thread(scene, seen)) is not None:
        one = thread
    else:
        more = (
            f"all {len(workers)} loader workers are idle: the batch was lost, or a thread of the rank holds it",
        )
        deed = Deed(Act.WAITS_FOR_IDLE_LOADER)
        return reason_of(scene, seen, Cause.DATA_LOADING, deed, clear=False, more=more)
    on_file = one.in_disk_wait or one.doing.posture is Posture.FILE
    cause = Cause.FILE_IO if on_file else Cause.DATA_LOADING
    reason = reason_of(scene, one, cause, sits(one), clear=one.doing.kind is not Kind.UNREAD)
    return _for_loader(one, reason, rank_line)


def _fetching_thread(scene: Scene, seen: SeenProcess) -> SeenProcess | None:
    """The rank, as seen through the thread that has the batch in its hands: it pins memory, or makes the data."""
    for thread in seen.sighting.threads:
        if thread is not seen.doing.thread and any(
            scene.framework.hands_over.search(frame.file) for frame in thread.stack
        ):
            doing = classify_thread(
                thread, scene.framework, process_state=seen.sighting.state, whose=scene.whose
            )
            if doing.kind is Kind.FETCH:
                told = doing if doing.frame is not None else seen.doing
                return replace(seen, doing=replace(doing, frame=told.frame, library=told.library))
    return None


def _for_loader(one: SeenProcess, reason: Reason, rank_line: tuple[str, ...]) -> Reason:
    """The rank waits for its loader, and this process or thread, for its own reason, does not deliver."""
    thread = one.doing.thread.name if one.role is Role.RANK and one.doing.thread else ""
    process = None if one.role is Role.RANK else Process("loader_worker", one.index, one.pid)
    deed = Deed(Act.WAITS_FOR_LOADER, process=process, thread=thread, inner=reason.deed)
    return replace(reason, deed=deed, evidence=rank_line + reason.evidence)


# ---------------------------------------------------------------- who works for it


def _who_works(scene: Scene, seen: SeenProcess) -> Reason | None:
    """The rank waits for a future, a pool or a thread: what does the one that works for it?

    None where nobody is seen to, or several that do different things: then all there is to say is that it waits.
    """
    work = awaits(seen.doing)
    if work is None or (work is Work.THREAD and seen.sighting.raised is not None):
        return None  # a thread of it died: it may well wait for that one
    found = _at_work(scene, seen, work)
    told = [(one, reason) for one in found if (reason := _of_work(scene, one)).cause is not None]
    if len({one.role for one, _ in told}) == 1:  # a library's tasks are not meant beside the user's
        own = [pair for pair in told if pair[1].where is not None and not pair[1].where.library]
        told = own or told
    if not told or len({_what(reason) for _, reason in told}) > 1:
        return None
    first = told[0][1]
    # Which thread fills a queue is a guess; an executor and a pool have theirs.
    reason = replace(first, proof=Proof.TIME, clear=first.clear and work is not Work.THREAD)
    return _awaiting(scene, seen, [one for one, _ in told], reason)


def _at_work(scene: Scene, seen: SeenProcess, work: Work) -> list[SeenProcess]:
    """Its threads and children that may do what it waits for."""
    threads = [
        classify_thread(thread, scene.framework, process_state=seen.sighting.state, whose=scene.whose)
        for thread in seen.sighting.threads
        if thread is not seen.doing.thread and thread.lane == UNKNOWN
    ]
    found = [replace(seen, doing=doing) for doing in threads if thread_works(doing, work)]
    return found + _children_at_work(scene, seen, work)


def _children_at_work(scene: Scene, seen: SeenProcess, work: Work) -> list[SeenProcess]:
    return [one for one in scene.others_of(seen.rank, Role.CHILD) if child_works(one.doing, work)]


def _of_work(scene: Scene, one: SeenProcess) -> Reason:
    """What a thread or a child does that works for a rank, and the cause that is its own."""
    if one.role is Role.CHILD and one.frozen:
        return _stopped(scene, one)
    if one.doing.posture is Posture.DISK:
        deed = Deed(Act.IS_IN_KERNEL, target=target_of(one))
        return reason_of(scene, one, Cause.FILE_IO, deed, clear=one.role is Role.CHILD and one.in_disk_wait)
    return _by_kind(scene, one)


def _what(reason: Reason) -> tuple[object, ...]:
    """What is said of it, without its line: of a pool each stands at another line of one function."""
    at = (reason.where.file, reason.where.function) if reason.where is not None else None
    return reason.cause, reason.deed.act, at


def _awaiting(scene: Scene, seen: SeenProcess, workers: list[SeenProcess], reason: Reason) -> Reason:
    """The rank waits for the first of these, and for others like it, which do this for their own reason.

    Where the worker is at no line of the user's, the line at which the rank waits is the one to look at.
    """
    first, line = workers[0], where_of(seen.doing.frame, library=seen.doing.library)
    at = reason.where
    if at is None or (at.library and line is not None and not line.library):
        at = line
    thread = first.doing.thread.name if first.role is Role.RANK and first.doing.thread is not None else ""
    deed = Deed(
        Act.AWAITS_THREAD if first.role is Role.RANK else Act.AWAITS_CHILD,
        where=line if at is line else None,
        process=reason.process,
        thread=thread,
        inner=reason.deed,
        others=len(workers) - 1,
    )
    evidence = sight_lines(seen, scene.names) + reason.evidence
    return replace(reason, deed=deed, where=at, evidence=evidence)


_WORKS = frozenset(
    {Posture.BUSY, Posture.ASLEEP, Posture.DISK, Posture.TERMINAL, Posture.PIPE, Posture.CHILD}
)
"""Inside an operation: it does something of its own there, like pickling an object."""


_AT = {
    Kind.BUILDING: (Cause.BUILDING, Act.COMPILES),
    Kind.SUBPROCESS: (Cause.USER_CODE, Act.WAITS_FOR_PROCESS),
    Kind.HTTP: (Cause.USER_CODE, Act.WAITS_FOR_ANSWER),
    Kind.SLEEP: (Cause.USER_CODE, Act.SLEEPS),
}
"""Kinds that tell all there is to say."""


def _by_kind(scene: Scene, seen: SeenProcess) -> Reason:
    kind, posture = seen.doing.kind, seen.doing.posture
    op = OpLabel(seen.doing.op)
    if kind is Kind.DEBUGGER:
        return reason_of(scene, seen, Cause.USER_CODE, Deed(Act.IS_AT_DEBUGGER), proof=Proof.STRUCTURAL)
    if kind is Kind.INPUT or (posture is Posture.TERMINAL and kind is Kind.USER):
        return reason_of(scene, seen, Cause.USER_CODE, Deed(Act.WAITS_FOR_INPUT), proof=Proof.STRUCTURAL)
    if kind is Kind.RENDEZVOUS:
        return reason_of(scene, seen, Cause.RENDEZVOUS, Deed(Act.IS_IN_CALL, op=op))
    if kind is Kind.FILE_IO or (posture is Posture.FILE and kind is not Kind.BUILDING):
        return reason_of(scene, seen, Cause.FILE_IO, Deed(Act.WAITS_FOR_FILE, target=target_of(seen)))
    if kind is Kind.CHECKPOINT:
        return reason_of(scene, seen, Cause.FILE_IO, Deed(Act.SAVES), clear=False)
    if kind is Kind.LOCK:
        return _locked(scene, seen, clear=True)
    if kind in _AT:
        cause, act = _AT[kind]
        return reason_of(scene, seen, cause, Deed(act))
    if kind is Kind.DEVICE_SYNC:
        return reason_of(scene, seen, Cause.DEVICE_STUCK, Deed(Act.WAITS_FOR_DEVICE), clear=False)
    if kind in (Kind.COLLECTIVE, Kind.P2P):
        if posture in _WORKS:
            deed = Deed(Act.WORKS_BEFORE_CALL, op=op, inner=sits(seen))
            return reason_of(scene, seen, Cause.USER_CODE, deed, clear=False)
        return reason_of(scene, seen, None, Deed(Act.IS_IN_UNSEEN_CALL, op=op))
    if kind is Kind.STEP:
        return reason_of(scene, seen, None, Deed(Act.IS_IN_STEP))
    if kind is Kind.UNREAD:
        why = seen.sighting.unread or "no stack was taken"
        return reason_of(scene, seen, None, Deed(Act.IS_UNREAD, said=why))
    if posture is Posture.FUTEX and seen.doing.lock is not False and kind is Kind.USER:
        return _locked(scene, seen, clear=seen.doing.lock is True)
    if kind in (Kind.BACKWARD, Kind.OPTIMIZER):
        act = Act.IS_IN_BACKWARD if kind is Kind.BACKWARD else Act.IS_IN_OPTIMIZER
        return reason_of(scene, seen, Cause.USER_CODE, Deed(act), clear=False)
    return reason_of(scene, seen, Cause.USER_CODE, sits(seen), clear=posture is not Posture.UNKNOWN)


def _locked(scene: Scene, seen: SeenProcess, *, clear: bool) -> Reason:
    raised = seen.sighting.raised
    died = []
    if raised is not None:
        at = f" in {format_where(where_of(raised.where, library=False))}" if raised.where is not None else ""
        died = [f"a thread of it died of {raised.exception}{at}"]
    others = died + [
        f"other thread {thread.name!r}: {format_stack(thread.stack)}"
        for thread in seen.sighting.threads
        if thread is not seen.doing.thread and thread.stack
    ]
    work = awaits(seen.doing) if seen.role is Role.RANK else None
    children = _children_at_work(scene, seen, work) if work is not None else []
    more = (
        *others[:4],
        *(line for one in children[:MOST_CHILDREN] for line in sight_lines(one, scene.names)),
    )
    return reason_of(scene, seen, Cause.PYTHON_LOCK, Deed(Act.WAITS_FOR_LOCK), clear=clear, more=more)
