"""Why a rank does not come: its own sighting gives the cause. A Scene and a rank enter, a Reason leaves.

Never here: other ranks. Whether anybody waits for this one was decided before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddetect.correlate.classify import classify_thread
from ddetect.correlate.scene import Scene, Seen
from ddetect.correlate.where import format_stack, format_where, where_of
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.model import UNKNOWN, Cause, Culprit, Phase, Process, Proof, Role, Thread, Where

TICK_LOST_S = 2.0
"""The probe's thread ticks twice a second; this long without a tick, Python does not run."""

EXIT_TAKES_S = 5.0
"""A process that raised ends its loader workers (some wait 5 s for one) and flushes; only then does it hang."""

MOST_CHILDREN = 6
"""Child processes that are shown when a rank waits for one of them."""

MOST_EXPLAINED = 512
"""More culprits than this are one class to a reader: the rest is not looked into."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a rank does instead of coming. `cause` None: its line is known, its reason is not."""

    cause: Cause | None
    doing: str
    proof: Proof = Proof.TIME
    clear: bool = True
    where: Where | None = None
    process: Process | None = None
    evidence: tuple[str, ...] = ()

    def culprit(self, scene: Scene, rank: int) -> Culprit:
        """The rank with this reason, as a verdict names it."""
        return Culprit(
            rank,
            host=scene.host(rank),
            pid=scene.pid(rank),
            process=self.process,
            where=self.where,
            doing=self.doing,
        )


def explain(scene: Scene, rank: int) -> Reason:
    """Say what this rank does, from its stack, its page, /proc and its loader workers."""
    seen = scene.rank_process(rank)
    phase = scene.phase_of(rank)
    if seen.stopped:
        return _stopped(seen)
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
        return _reason(seen, Cause.FILE_IO, "is stuck in the kernel, state D" + _target(seen))
    if seen.doing.kind is Kind.SUBPROCESS or seen.doing.posture is Posture.CHILD:
        reason = _by_kind(scene, seen)
        children = scene.others_of(rank, Role.CHILD)[:MOST_CHILDREN]
        return replace(
            reason, evidence=reason.evidence + tuple(line for one in children for line in sight_lines(one))
        )
    return _by_kind(scene, seen)


_VAGUE = frozenset({Kind.UNREAD, Kind.USER, Kind.LOCK, Kind.SUBPROCESS})


# ---------------------------------------------------------------- words


def _place(where: Where | None) -> str:
    return f" in {format_where(where)}" if where is not None else ""


def _target(seen: Seen) -> str:
    thread = seen.doing.thread
    if thread is None or not (thread.syscall or thread.wchan):
        return ""
    name = thread.syscall or thread.wchan
    on = f" on {thread.target}" if thread.target.startswith(("/", "./")) else ""
    return f" ({name}{on})"


def _verb(seen: Seen) -> str:
    """How it sits there, as a verb."""
    return {
        Posture.BUSY: "is busy",
        Posture.ASLEEP: "sleeps",
        Posture.FUTEX: "waits on a lock or condition",
        Posture.DISK: "is stuck in the kernel, state D" + _target(seen),
        Posture.FILE: "waits for a file" + _target(seen),
        Posture.TERMINAL: "waits for keyboard input",
        Posture.SOCKET: "waits for the network",
        Posture.PIPE: "waits for another process (a pipe)",
        Posture.CHILD: "waits for a child process",
    }.get(seen.doing.posture, "is")


def sight_lines(seen: Seen) -> tuple[str, ...]:
    """Evidence: the thread that tells what a process does, or why there is none."""
    thread, name = seen.doing.thread, f"rank {seen.rank} (pid {seen.pid})"
    if seen.role is Role.LOADER_WORKER:
        name = f"loader worker {seen.index} of rank {seen.rank} (pid {seen.pid})" if seen.index >= 0 else name
    elif seen.role is Role.CHILD:
        name = f"child process of rank {seen.rank} (pid {seen.pid})"
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
    return (f"{name}: state {state}{f' ({kernel})' if kernel else ''}: {format_stack(thread.stack)}",)


def _reason(
    seen: Seen, cause: Cause | None, doing: str, *, proof: Proof = Proof.TIME, clear: bool = True,
    where: Where | None = None, more: tuple[str, ...] = (),
) -> Reason:  # fmt: skip
    where = where or where_of(seen.doing.frame, library=seen.doing.library)
    process = Process("loader_worker", seen.index, seen.pid) if seen.role is Role.LOADER_WORKER else None
    return Reason(cause, doing + _place(where), proof, clear, where, process, sight_lines(seen) + more)


# ---------------------------------------------------------------- cases


def _stopped(seen: Seen) -> Reason:
    held = "is held by a debugger or tracer" if set(seen.states) == {"t"} else "is stopped (SIGSTOP)"
    return _reason(seen, Cause.PROCESS_STOPPED, held, proof=Proof.STRUCTURAL)


def _gil(seen: Seen, scene: Scene) -> Reason | None:
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
    return _reason(seen, Cause.GIL_HELD, "holds the GIL", where=where, more=more, clear=silent)


def _owns_in_every_look(scene: Scene, seen: Seen, owner: Thread) -> bool:
    looks = 0
    for sample in scene.snapshot.samples:
        for row in range(len(sample)):
            if sample.pid[row] == seen.pid and sample.rank[row] == seen.rank:
                threads = sample.sightings[int(sample.sighting[row])].threads
                if not any(t.owns_gil and not t.active and t.stack == owner.stack for t in threads):
                    return False
                looks += 1
    return looks > 1


def _leaving(scene: Scene, seen: Seen, phase: Phase | None) -> Reason:
    raised = seen.sighting.raised
    if raised is not None and raised.fatal:
        overdue = scene.phase_age_s[scene.position(seen.rank)] >= EXIT_TAKES_S
        stuck = overdue and "R" not in seen.states  # on an overloaded machine it still works on its end
        reason = _reason(seen, Cause.PYTHON_EXCEPTION, "", proof=Proof.STRUCTURAL if stuck else Proof.TIME)
        raised_at = scene.whose.where(raised.where)
        said = raised.exception.splitlines()[0][:200] + _place(raised_at)
        return replace(
            reason,
            doing=f"raised {said} and does not get out of its process",
            where=raised_at or reason.where,
        )
    doing = "has left its process group" if phase is Phase.LEAVING else "is on its way out"
    # Without a page nobody tells what it raised before it left.
    return _reason(seen, Cause.LEFT_EARLY, doing, proof=Proof.STRUCTURAL, clear=phase is not None)


def _runs_exit_handlers(scene: Scene, seen: Seen) -> bool:
    """The program's own frame is gone from under its main thread, while other ranks still have theirs."""
    main = seen.sighting.main
    if main is None or not main.stack or main.stack[-1].function in _BEGINNINGS:
        return False
    others = (scene.rank_process(int(rank)).sighting.main for rank in scene.ranks[scene.live][:_COMPARED])
    return any(
        other.stack[-1].function == "<module>" for other in others if other is not None and other.stack
    )


_BEGINNINGS = frozenset({"<module>", "_bootstrap", "_bootstrap_inner", "_run_code", "spawn_main"})
_COMPARED = 64


def _data(scene: Scene, seen: Seen) -> Reason:
    """The rank waits for a batch: which loader worker does not deliver, or which line of the dataset is it in?"""
    workers = scene.others_of(seen.rank, Role.LOADER_WORKER)
    if seen.doing.kind is Kind.FETCH or not workers:
        if seen.in_disk_wait or seen.doing.posture is Posture.FILE:
            return _reason(seen, Cause.FILE_IO, "loads data in its own process and " + _verb(seen))
        doing = "loads data in its own process and " + _verb(seen) if seen.doing.kind is Kind.FETCH else ""
        return _reason(seen, Cause.DATA_LOADING, doing or "waits for its next batch", clear=bool(doing))
    rank_line = sight_lines(seen)
    stuck = next((one for one in workers if one.stopped), None)
    if stuck is not None:
        reason = _stopped(stuck)
        return _with(
            reason, f"waits for {scene.framework.words.loader}: {_worker(stuck)} {reason.doing}", rank_line
        )
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
        return _reason(
            seen,
            Cause.DATA_LOADING,
            f"waits for {scene.framework.words.loader}, whose workers are all idle",
            clear=False,
            more=more,
        )
    on_file = one.in_disk_wait or one.doing.posture is Posture.FILE
    reason = _reason(
        one,
        Cause.FILE_IO if on_file else Cause.DATA_LOADING,
        _verb(one),
        clear=one.doing.kind is not Kind.UNREAD,
    )
    return _with(
        reason, f"waits for {scene.framework.words.loader}: {_worker(one)} {reason.doing}", rank_line
    )


def _fetching_thread(scene: Scene, seen: Seen) -> Seen | None:
    """The rank, as seen through the thread that has the batch in its hands: the one that pins memory."""
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


def _worker(seen: Seen) -> str:
    if seen.role is Role.RANK:
        return f"its own thread {seen.doing.thread.name if seen.doing.thread else ''!r}, which pins memory,"
    return (
        f"loader worker {seen.index} (pid {seen.pid})"
        if seen.index >= 0
        else f"a loader worker (pid {seen.pid})"
    )


def _with(reason: Reason, doing: str, more: tuple[str, ...]) -> Reason:
    return Reason(
        reason.cause, doing, reason.proof, reason.clear, reason.where, reason.process, more + reason.evidence
    )


_WORKS = frozenset(
    {Posture.BUSY, Posture.ASLEEP, Posture.DISK, Posture.TERMINAL, Posture.PIPE, Posture.CHILD}
)
"""Inside an operation: it does something of its own there, like pickling an object."""


def _by_kind(scene: Scene, seen: Seen) -> Reason:
    kind, posture = seen.doing.kind, seen.doing.posture
    if kind is Kind.DEBUGGER:
        return _reason(seen, Cause.USER_CODE, "is at a debugger prompt", proof=Proof.STRUCTURAL)
    if kind is Kind.INPUT or (posture is Posture.TERMINAL and kind is Kind.USER):
        return _reason(seen, Cause.USER_CODE, "waits for keyboard input", proof=Proof.STRUCTURAL)
    if kind is Kind.BUILDING:
        return _reason(seen, Cause.BUILDING, "compiles")
    if kind is Kind.RENDEZVOUS:
        return _reason(seen, Cause.RENDEZVOUS, f"is in {seen.doing.op}")
    if kind is Kind.FILE_IO or posture is Posture.FILE:
        return _reason(seen, Cause.FILE_IO, "waits for a file" + _target(seen))
    if kind is Kind.CHECKPOINT:
        return _reason(seen, Cause.FILE_IO, "saves or loads a checkpoint", clear=False)
    if kind is Kind.LOCK:
        return _locked(seen, clear=True)
    if kind is Kind.SUBPROCESS:
        return _reason(seen, Cause.USER_CODE, "waits for another process")
    if kind is Kind.HTTP:
        return _reason(seen, Cause.USER_CODE, "waits for a network answer")
    if kind is Kind.SLEEP:
        return _reason(seen, Cause.USER_CODE, "sleeps")
    if kind is Kind.DEVICE_SYNC:
        return _reason(seen, Cause.DEVICE_STUCK, "waits for its device", clear=False)
    if kind in (Kind.COLLECTIVE, Kind.P2P):
        inside = seen.doing.op or scene.framework.words.inside
        if posture in _WORKS:
            doing = f"{_verb(seen)} inside {inside}, before the operation begins,"
            return _reason(seen, Cause.USER_CODE, doing, clear=False)
        return _reason(seen, None, f"is inside {inside}, which its recorder does not show")
    if kind is Kind.UNREAD:
        return _reason(seen, None, f"could not be read ({seen.sighting.unread or 'no stack was taken'})")
    if posture is Posture.FUTEX and seen.doing.lock is not False and kind is Kind.USER:
        return _locked(seen, clear=seen.doing.lock is True)
    if kind in (Kind.BACKWARD, Kind.OPTIMIZER):
        return _reason(seen, Cause.USER_CODE, f"is in {kind.name.lower()}", clear=False)
    verb = _verb(seen)
    clear = posture is not Posture.UNKNOWN
    return _reason(seen, Cause.USER_CODE, verb, clear=clear)


def _locked(seen: Seen, *, clear: bool) -> Reason:
    raised = seen.sighting.raised
    died = []
    if raised is not None:
        place = _place(where_of(raised.where, library=False))
        died = [f"a thread of it died of {raised.exception}{place}"]
    others = died + [
        f"other thread {thread.name!r}: {format_stack(thread.stack)}"
        for thread in seen.sighting.threads
        if thread is not seen.doing.thread and thread.stack
    ]
    return _reason(
        seen, Cause.PYTHON_LOCK, "waits for a lock or another thread", clear=clear, more=tuple(others[:4])
    )


def user_line(scene: Scene, rank: int) -> Where | None:
    """The rank's own line, whatever it does there."""
    return scene.whose.where(scene.rank_process(rank).doing.frame)
