"""In which call with others a process was when SIGABRT ended it. A death enters, the same with its call leaves.

Its page tells of calls from Python, the stack that was written down of the others, the last looks of what was open.
Never here: who is named (aborted.py), which other deaths follow from it (consequence.py).
"""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np

from ddetect.correlate.classify import classify_thread
from ddetect.correlate.scene import Scene
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import COMMUNICATING, Kind
from ddetect.model import UNKNOWN, Departure, Gone, LastCall, Thread
from ddetect.model.deeds import OpLabel

ABORTED = int(signal.SIGABRT)


def is_aborted_inside(gone: Gone, framework: Framework) -> bool:
    """Whether its framework aborted this process for what a peer sent: its own word tells, else where that met it."""
    if gone.how is not Departure.VANISHED or gone.signal != ABORTED:
        return False
    if gone.exception:
        return framework.refuses_calls(gone.exception)
    return gone.last_call is not None and gone.last_call.inside


def abort_label(gone: Gone) -> OpLabel:
    """The operation in which it was, as far as that is told."""
    call = gone.last_call
    if call is None or not call.inside:
        return OpLabel("")
    return OpLabel(call.op, call.seq if call.seq > 0 else None, call.label)


def with_call(scene: Scene, gone: Gone) -> Gone:
    """The same death with the call that it was in, as far as anybody tells."""
    call = gone.last_call
    if call is not None and call.inside and call.op:
        return gone
    seen = _call_in_stack(scene, gone)
    if call is not None and call.inside:
        return replace(gone, last_call=replace(call, op=seen)) if seen else gone
    if seen:
        return replace(gone, last_call=LastCall(True, seen))
    return replace(gone, last_call=_open_in_looks(scene, gone.rank) or call)


def _call_in_stack(scene: Scene, gone: Gone) -> str:
    """The operation that the stack of its end shows; in backward only where the abort met no thread of Python."""
    if not gone.stack:
        return ""
    thread = Thread("MainThread", True, False, False, gone.stack)
    doing = classify_thread(thread, scene.framework, whose=scene.whose)
    if doing.kind in COMMUNICATING:
        return doing.op
    backward = doing.kind is Kind.BACKWARD and gone.below and scene.count_ranks > 1
    return scene.framework.words.backward if backward else ""


def _open_in_looks(scene: Scene, rank: int) -> LastCall | None:
    """What this rank's recorder showed open in the newest look that has it, of a group that meets on the host."""
    for look in reversed(scene.snapshot.looks):
        comms = look.comms
        for row in np.flatnonzero(
            (comms.progress.member == rank) & (comms.progress.oldest_open > 0)
        ).tolist():
            group, seq = comms.groups[int(comms.progress.group[row])], int(comms.progress.oldest_open[row])
            if scene.framework.on_device(group.backend):
                continue
            ops = comms.ops
            at = np.flatnonzero(
                (ops.member == rank) & (ops.seq == seq) & (ops.group == comms.progress.group[row])
            )
            spec = comms.calls[int(ops.call[at[0]])] if len(at) else None
            op = scene.framework.operation(spec).name if spec is not None else ""
            size = len(group.members) or UNKNOWN
            return LastCall(True, op, group.backend, group.name, group.label, seq, size=size)
        if (comms.progress.member == rank).any():
            return None  # it was read then, and nothing was open
    return None
