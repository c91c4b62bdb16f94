"""The state of a job of which nothing is suspected <-> bytes, so that what followed can be played again from there.

Enters: a JobState without a watch. Leaves: bytes, and from them the same JobState. Rosters, beats and deaths are kept
as the messages that brought them. Never here: files, pickles (an incident's folder may come from anywhere).
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Any

from ddetect.coordinator.departed import Departures
from ddetect.coordinator.events import Ending
from ddetect.coordinator.nodes import Nodes, NodeView
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.state import JobState
from ddetect.messages import FromAgent, NodeBeat, NodeGone, NodeRoster
from ddetect.model import Phase, Settings
from ddetect.wire.codec import agent_bytes, agent_words

_LENGTH = struct.Struct("<I")
_NUMBERS = ("attempt", "number", "requests", "tickets", "ending_at", "last_now", "awake_since")


def dump_state(job: JobState) -> bytes:
    """What a fresh state machine must know to go on as this one. Only while nothing is watched."""
    assert job.watch is None
    messages: list[FromAgent] = [NodeGone(tuple(gone for gone, _ in job.departures.all))]
    views = {"nodes": {}, "left": {}}  # type: dict[str, dict[str, Any]]
    for place, kept in (("nodes", job.nodes.nodes), ("left", job.nodes.left)):
        for name, view in kept.items():
            views[place][name] = _view(view, messages)
    patience, still_open = job.patience, {id(item) for item in job.departures.open}
    about = {
        "job": job.job,
        "settings": asdict(job.settings),
        "numbers": {name: getattr(job, name) for name in _NUMBERS},
        "restarted": sorted(job.restarted),
        "ending": asdict(job.ending) if job.ending is not None else None,
        "attempt_at": job.nodes.attempt_at,
        "gone_at": [at for _, at in job.departures.all],
        "open": [id(item) in still_open for item in job.departures.all],
        "patience": {
            "gaps": [
                [int(phase), place, gap, patience.seen[phase, place]]
                for (phase, place), gap in patience.longest_s.items()
            ],
            "step_s": patience.step_s,
            "paced_at": patience.paced_at,
            "running": [int(patience.running[0]), patience.running[1]],
            "stepless_s": patience.stepless_s,
            "alone_s": patience.alone_s,
            "slow": patience.slow,
        },
        **views,
    }
    parts = [
        json.dumps(about).encode(),
        *(agent_bytes(message) for message in messages),
    ]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def load_state(data: bytes) -> JobState:
    """The state machine as it was. Raises ValueError or KeyError when the bytes are none of ours."""
    first, *rest = _parts(data)
    about = json.loads(first)
    messages = [agent_words(part) for part in rest]
    job = JobState(str(about["job"]), Settings(**about["settings"]))
    for name in _NUMBERS:
        setattr(job, name, about["numbers"][name])
    job.restarted = frozenset(about["restarted"])
    job.ending = Ending(**about["ending"]) if about["ending"] else None
    job.nodes = _nodes(about, messages)
    gone = messages[0].gone if isinstance(messages[0], NodeGone) else ()
    dated = tuple(zip(gone, about["gone_at"], strict=True))
    departures = Departures(dated)
    job.departures = departures.explain(
        item for item, is_open in zip(dated, about["open"], strict=True) if not is_open
    )
    told = about["patience"]
    job.patience = Patience(
        job.settings,
        {(Phase(phase), place): gap for phase, place, gap, _ in told["gaps"]},
        {(Phase(phase), place): count for phase, place, _, count in told["gaps"]},
        told["step_s"],
        (told["paced_at"][0], told["paced_at"][1]) if told["paced_at"] else None,
        (Phase(told["running"][0]), told["running"][1]),
        told["stepless_s"],
        told["alone_s"],
        (told["slow"][0], told["slow"][1]),
    )
    return job


def _view(view: NodeView, messages: list[FromAgent]) -> dict[str, Any]:
    def put(message: FromAgent | None) -> int:
        if message is None:
            return -1
        messages.append(message)
        return len(messages) - 1

    return {
        "roster": put(view.roster),
        "coming": put(view.coming),
        "beats": put(NodeBeat(0, view.beats) if view.beats is not None else None),
        "beats_at": view.beats_at,
        "since": view.since,
        "heard_at": view.heard_at,
        "connected": view.connected,
        "told_at": view.told_at,
        "superseded": sorted(view.superseded),
    }


def _nodes(about: dict[str, Any], messages: list[FromAgent]) -> Nodes:
    nodes = Nodes(attempt_at=about["attempt_at"])
    for place, kept in (("nodes", nodes.nodes), ("left", nodes.left)):
        for name, told in about[place].items():
            roster, coming, beats = (
                messages[told[part]] if told[part] >= 0 else None for part in ("roster", "coming", "beats")
            )
            kept[name] = NodeView(
                roster if isinstance(roster, NodeRoster) else None,
                coming if isinstance(coming, NodeRoster) else None,
                beats.beats if isinstance(beats, NodeBeat) else None,
                told["beats_at"],
                told["since"],
                told["heard_at"],
                told["connected"],
                told["told_at"],
                frozenset(told["superseded"]),
            )
    return nodes


def _parts(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + size > len(data):
            raise ValueError("a checkpoint ends in the middle")
        parts.append(data[at : at + size])
        at += size
    return parts
