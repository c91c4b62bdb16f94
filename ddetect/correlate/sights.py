"""What one process shows: how it sits, a line of evidence, and the Reason that a rank has. A SeenProcess enters.

Leaves: deeds, text for evidence, a Reason. Never here: which cause it is (reasons.py), other ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddetect.correlate.phrases import culprit
from ddetect.correlate.scene import Scene, SeenProcess
from ddetect.correlate.where import format_stack, where_of
from ddetect.frameworks.kinds import Posture
from ddetect.model import Cause, Culprit, Names, Process, Proof, Role, Where
from ddetect.model.deeds import Act, Deed, KernelCall
from ddetect.report.words import name_members

_NATIVE_SHOWN = 4
_ROLES = {Role.LOADER_WORKER: "loader_worker", Role.CHILD: "child_process"}
"""How a verdict calls a process that is not the rank's own."""


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


def target_of(seen: SeenProcess) -> KernelCall | None:
    """The call of the kernel's that it is in, and on which file."""
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


def sits(seen: SeenProcess) -> Deed:
    """How it sits there."""
    posture = seen.doing.posture
    told = posture in (Posture.DISK, Posture.FILE)
    return Deed(_SITS.get(posture, Act.IS_THERE), target=target_of(seen) if told else None)


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


def reason_of(
    scene: Scene, seen: SeenProcess, cause: Cause | None, deed: Deed, *, proof: Proof = Proof.TIME, clear: bool = True,
    where: Where | None = None, more: tuple[str, ...] = (),
) -> Reason:  # fmt: skip
    """The reason of who is seen so; the line is its own unless another one is given."""
    where = where or where_of(seen.doing.frame, library=seen.doing.library)
    role = _ROLES.get(seen.role)
    process = Process(role, seen.index, seen.pid) if role is not None else None
    evidence = sight_lines(seen, scene.names) + more
    return Reason(cause, replace(deed, where=where), proof, clear, where, process, evidence)


def user_line(scene: Scene, rank: int) -> Where | None:
    """The rank's own line, whatever it does there."""
    return scene.whose.where(scene.rank_process(rank).doing.frame)
