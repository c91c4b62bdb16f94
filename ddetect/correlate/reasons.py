"""Why a rank does not come: its own sighting gives the cause. A Scene and a rank enter, a Reason leaves.

Never here: other ranks. Whether anybody waits for this one was decided before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddetect.correlate.classify import classify_thread
from ddetect.correlate.phrases import culprit
from ddetect.correlate.scene import Scene, SeenProcess
from ddetect.correlate.where import format_stack, where_of
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.model import (
    UNKNOWN,
    Cause,
    Culprit,
    Names,
    Phase,
    Process,
    Proof,
    Role,
    Thread,
    Where,
    rank_of,
)
from ddetect.model.deeds import Act, Deed, KernelCall, OpLabel
from ddetect.report.words import format_where, name_members

TICK_LOST_S = 2.0
"""The probe's thread ticks twice a second; this long without a tick, Python does not run."""

EXIT_TAKES_S = 5.0
"""A process that raised ends its loader workers (some wait 5 s for one) and flushes; only then does it hang."""

MOST_CHILDREN = 6
"""Child processes that are shown when a rank waits for one of them."""

_NATIVE_SHOWN = 4
MOST_EXPLAINED = 512
"""More culprits than this are one class to a reader: the rest is not looked into."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a rank does instead of coming. `cause` None: its line is known, its reason is not."""

    cause: Cause | None
    deed: Deed
    proof: Proof = Proof.TIME
    clear: bool = True
    where: Where | None = None
    process: Process | None = None
    evidence: tuple[str, ...] = ()

    def culprit(self, scene: Scene, rank: int) -> Culprit:
        """The rank with this reason, as a verdict names it."""
        return culprit(scene, rank, self.deed, where=self.where, process=self.process)


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
        return _reason(scene, seen, Cause.FILE_IO, Deed(Act.IS_IN_KERNEL, target=_target(seen)))
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


# ---------------------------------------------------------------- deeds


def _target(seen: SeenProcess) -> KernelCall | None:
    thread = seen.doing.thread
    if thread is None or not (thread.syscall or thread.wchan):
        return None
    path = thread.target if thread.target.startswith(("/", "./")) else ""
    return KernelCall(thread.syscall or thread.wchan, path)


_SITS = {
    Posture.BUSY: Act.IS_BUSY,
    Posture.ASLEEP: Act.SLEEPS,
    Posture.FUTEX: Act.WAITS_ON_FUTEX,
    Posture.DISK: Act.IS_IN_KERNEL,
    Posture.FILE: Act.WAITS_FOR_FILE,
    Posture.TERMINAL: Act.WAITS_FOR_INPUT,
    Posture.SOCKET: Act.WAITS_FOR_NETWORK,
    Posture.PIPE: Act.WAITS_FOR_PIPE,
    Posture.CHILD: Act.WAITS_FOR_CHILD,
}


def _sits(seen: SeenProcess) -> Deed:
    """How it sits there."""
    posture = seen.doing.posture
    told = posture in (Posture.DISK, Posture.FILE)
    return Deed(_SITS.get(posture, Act.IS_THERE), target=_target(seen) if told else None)


def sight_lines(seen: SeenProcess, names: Names) -> tuple[str, ...]:
    """Evidence: the thread that tells what a process does, or why there is none."""
    thread, name = seen.doing.thread, f"{name_members((seen.rank,), names)} (pid {seen.pid})"
    if seen.role is Role.LOADER_WORKER:
        name = f"loader worker {seen.index} of {name}" if seen.index >= 0 else name
    elif seen.role is Role.CHILD:
        name = f"child process of {name}"
    elif thread is not None and not thread.is_main:
        name += f", thread {thread.name!r}"
    if thread is None:
        why = seen.sighting.unread or "no stack was taken"
        return (f"{name}: state {seen.sighting.state or 'unknown'}, stack unread: {why}",)
    kernel = ", ".join(
        part for part in (thread.wchan, (thread.syscall + " " + thread.target).strip()) if part
    )
    state = thread.state or seen.sighting.state or "?"
    if seen.gpu_busy >= 0:
        state += f", GPU {seen.gpu_busy:.0f} % busy"
    below = f"; below Python: {' <- '.join(thread.native[:_NATIVE_SHOWN])}" if seen.doing.told_below else ""
    return (f"{name}: state {state}{f' ({kernel})' if kernel else ''}: {format_stack(thread.stack)}{below}",)


def _reason(
    scene: Scene, seen: SeenProcess, cause: Cause | None, deed: Deed, *, proof: Proof = Proof.TIME, clear: bool = True,
    where: Where | None = None, more: tuple[str, ...] = (),
) -> Reason:  # fmt: skip
    where = where or where_of(seen.doing.frame, library=seen.doing.library)
    process = Process("loader_worker", seen.index, seen.pid) if seen.role is Role.LOADER_WORKER else None
    evidence = sight_lines(seen, scene.names) + more
    return Reason(cause, replace(deed, where=where), proof, clear, where, process, evidence)


# ---------------------------------------------------------------- cases


def _stopped(scene: Scene, seen: SeenProcess) -> Reason:
    act = Act.IS_TRACED if set(seen.states) == {"t"} else Act.IS_STOPPED
    return _reason(scene, seen, Cause.PROCESS_STOPPED, Deed(act), proof=Proof.STRUCTURAL)


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
    return _reason(scene, seen, Cause.GIL_HELD, Deed(Act.HOLDS_GIL), where=where, more=more, clear=silent)


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
        reason = _reason(scene, seen, Cause.PYTHON_EXCEPTION, deed, proof=proof)
        return replace(reason, deed=deed, where=deed.where or reason.where)
    deed = Deed(Act.LEFT_GROUP if phase is Phase.LEAVING else Act.LEAVES)
    # Without a page nobody tells what it raised before it left.
    return _reason(scene, seen, Cause.LEFT_EARLY, deed, proof=Proof.STRUCTURAL, clear=phase is not None)


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
        loads = Deed(Act.LOADS_DATA, inner=_sits(seen))
        if seen.in_disk_wait or seen.doing.posture is Posture.FILE:
            return _reason(scene, seen, Cause.FILE_IO, loads)
        if seen.doing.kind is Kind.FETCH:
            return _reason(scene, seen, Cause.DATA_LOADING, loads)
        return _reason(scene, seen, Cause.DATA_LOADING, Deed(Act.WAITS_FOR_BATCH), clear=False)
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
        return _reason(scene, seen, Cause.DATA_LOADING, deed, clear=False, more=more)
    on_file = one.in_disk_wait or one.doing.posture is Posture.FILE
    cause = Cause.FILE_IO if on_file else Cause.DATA_LOADING
    reason = _reason(scene, one, cause, _sits(one), clear=one.doing.kind is not Kind.UNREAD)
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
        return _reason(scene, seen, Cause.USER_CODE, Deed(Act.IS_AT_DEBUGGER), proof=Proof.STRUCTURAL)
    if kind is Kind.INPUT or (posture is Posture.TERMINAL and kind is Kind.USER):
        return _reason(scene, seen, Cause.USER_CODE, Deed(Act.WAITS_FOR_INPUT), proof=Proof.STRUCTURAL)
    if kind is Kind.RENDEZVOUS:
        return _reason(scene, seen, Cause.RENDEZVOUS, Deed(Act.IS_IN_CALL, op=op))
    if kind is Kind.FILE_IO or (posture is Posture.FILE and kind is not Kind.BUILDING):
        return _reason(scene, seen, Cause.FILE_IO, Deed(Act.WAITS_FOR_FILE, target=_target(seen)))
    if kind is Kind.CHECKPOINT:
        return _reason(scene, seen, Cause.FILE_IO, Deed(Act.SAVES), clear=False)
    if kind is Kind.LOCK:
        return _locked(scene, seen, clear=True)
    if kind in _AT:
        cause, act = _AT[kind]
        return _reason(scene, seen, cause, Deed(act))
    if kind is Kind.DEVICE_SYNC:
        return _reason(scene, seen, Cause.DEVICE_STUCK, Deed(Act.WAITS_FOR_DEVICE), clear=False)
    if kind in (Kind.COLLECTIVE, Kind.P2P):
        if posture in _WORKS:
            deed = Deed(Act.WORKS_BEFORE_CALL, op=op, inner=_sits(seen))
            return _reason(scene, seen, Cause.USER_CODE, deed, clear=False)
        return _reason(scene, seen, None, Deed(Act.IS_IN_UNSEEN_CALL, op=op))
    if kind is Kind.STEP:
        return _reason(scene, seen, None, Deed(Act.IS_IN_STEP))
    if kind is Kind.UNREAD:
        why = seen.sighting.unread or "no stack was taken"
        return _reason(scene, seen, None, Deed(Act.IS_UNREAD, said=why))
    if posture is Posture.FUTEX and seen.doing.lock is not False and kind is Kind.USER:
        return _locked(scene, seen, clear=seen.doing.lock is True)
    if kind in (Kind.BACKWARD, Kind.OPTIMIZER):
        act = Act.IS_IN_BACKWARD if kind is Kind.BACKWARD else Act.IS_IN_OPTIMIZER
        return _reason(scene, seen, Cause.USER_CODE, Deed(act), clear=False)
    return _reason(scene, seen, Cause.USER_CODE, _sits(seen), clear=posture is not Posture.UNKNOWN)


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
    deed = Deed(Act.WAITS_FOR_LOCK)
    return _reason(scene, seen, Cause.PYTHON_LOCK, deed, clear=clear, more=tuple(others[:4]))


def user_line(scene: Scene, rank: int) -> Where | None:
    """The rank's own line, whatever it does there."""
    return scene.whose.where(scene.rank_process(rank).doing.frame)
