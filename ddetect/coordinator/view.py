"""What people are shown of a running job: the status line and the answer to `ddetect status`.

Enters: the state machine, read only. Leaves: a line and a protobuf response. Never here: changing anything.
"""

from __future__ import annotations

from ddetect.coordinator.nodes import SILENT_AFTER_S
from ddetect.coordinator.state import JobState
from ddetect.model import Names
from ddetect.report.outlook import noticed_words
from ddetect.report.status import format_status_line
from ddetect.wire.bundles import bundle_pb
from ddetect.wire.tables import pack
from ddetect.wire.v1 import client_pb2


def job_state(job: JobState, now: float) -> str:
    """One word: starting, moving, noticed, paused, suspected, confirmed, blind, ended.

    A suspicion rests while all ranks are stopped, which is somebody's wish; an alarm stays.
    """
    watch, pulse = job.watch, job.nodes.pulse(now)
    if job.ending is not None and job.ending.exit_code is not None:
        return "ended"
    if watch is not None and watch.is_confirmed:
        return "confirmed"
    if pulse is not None and pulse.frozen:
        return "paused"
    if watch is not None:
        return "noticed" if watch.noticed else "suspected"
    if pulse is None:
        return "blind" if job.nodes.heard() else "starting"
    return "moving" if job.patience.learned(pulse.steps) else "starting"


def stalled_for_s(job: JobState, now: float) -> float:
    """How long nothing has moved."""
    if job.watch is not None:
        return now - job.watch.since
    pulse = job.nodes.pulse(now)
    return max(0.0, pulse.seen_at - pulse.activity_at) if pulse else 0.0


def status_line(job: JobState, now: float) -> str:
    """The live line on the user's terminal."""
    pulse = job.nodes.pulse(now)
    watch = job.watch
    return format_status_line(
        state=job_state(job, now),
        ranks_seen=pulse.alive if pulse else 0,
        world_size=job.nodes.world_size(),
        step=pulse.steps if pulse else 0,
        steps_per_s=1.0 / job.patience.step_s if job.patience.step_s else 0.0,
        stalled_for_s=stalled_for_s(job, now),
        verdict=watch.incident.verdict if watch and watch.incident else None,
        summary=noticed(job, now),
        blind=_blind(job, now),
    )


def noticed(job: JobState, now: float) -> str:
    """Where a job stands that stands still within the usual, as a sentence; "" if it does not."""
    watch, pulse = job.watch, job.nodes.pulse(now)
    if watch is None or not watch.noticed or pulse is None:
        return ""
    verdict = watch.named[0] if watch.named is not None else None
    usual = job.patience.usual_s(watch.phase, watch.place if watch.glances else None)
    culprits = verdict.culprits if verdict is not None else ()
    names = verdict.names if verdict is not None else Names()
    return noticed_words(culprits, names, now - watch.still_since, usual)


def _outlook(job: JobState, now: float) -> client_pb2.Outlook | None:
    watch = job.watch
    if watch is None or watch.outlook is None or watch.is_confirmed:
        return None
    told = watch.outlook
    return client_pb2.Outlook(
        situation=told.situation.value, after_s=told.after_s, due_in_s=told.at - now, because=told.because
    )


def _blind(job: JobState, now: float) -> str:
    """A blind watcher never looks healthy: say which nodes are silent."""
    silent = [name for name, node in job.nodes.nodes.items() if now - node.heard_at > SILENT_AFTER_S]
    return f"no word from the agent on {', '.join(sorted(silent))}" if silent else ""


def status_response(job: JobState, now: float, incident_folder: str) -> client_pb2.StatusResponse:
    """Everything `ddetect status` shows."""
    watch = job.watch
    return client_pb2.StatusResponse(
        job=job.job,
        attempt=job.attempt,
        world_size=job.nodes.world_size(),
        state=job_state(job, now),
        steps_per_s=1.0 / job.patience.step_s if job.patience.step_s else 0.0,
        stalled_for_s=stalled_for_s(job, now),
        roster=bundle_pb(job.nodes.roster()),
        beats=pack(job.nodes.beats(now)),
        nodes=[
            client_pb2.NodeStatus(name=name, connected=node.connected, heard_s_ago=now - node.heard_at)
            for name, node in job.nodes.nodes.items()
        ],
        incident=incident_folder,
        summary=watch.incident.verdict.summary if watch and watch.incident else "",
        verdict_status=watch.incident.verdict.status.value if watch and watch.incident else "",
        noticed=noticed(job, now),
        outlook=_outlook(job, now),
    )
