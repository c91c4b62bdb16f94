"""Several members in one process are judged, named and told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddetect.cli.diagnose import replay
from ddetect.correlate.judge import judge
from ddetect.model import (
    Beats,
    CallSpec,
    Comms,
    Departure,
    Gone,
    Group,
    Look,
    Ops,
    OpState,
    Phase,
    Progress,
    Role,
    Roster,
    Sample,
    Snapshot,
)
from ddetect.report.json_ import verdict_json
from ddetect.report.text import format_report
from tests.unit.correlate.scenes import C10D, FUTEX, SLEEPS, sighting, thread

LANES = (0, 1, 2, 3)
IN_CALL = (f"all_reduce {C10D}:2810", "replica_step /job/train.py:40")
STUCK = 1


def mirrored() -> Snapshot:
    """One process, four replicas with a thread each; replica 1 sleeps and the others are in all_reduce."""
    look = sighting(
        *(
            thread("augment /job/data.py:7", "replica_step /job/train.py:39", main=False, lane=lane, **SLEEPS)
            if lane == STUCK
            else thread(*IN_CALL, main=False, lane=lane, **FUTEX)
            for lane in LANES
        ),
        thread("join /usr/lib/python3.11/threading.py:1", "<module> /job/train.py:90", **FUTEX),
    )
    rows, zeros = len(LANES), [0] * len(LANES)
    inside = [int(lane != STUCK) for lane in LANES]
    held = [lane for lane in LANES if lane != STUCK]
    roster = Roster(
        rank=zeros, lane=LANES, node=zeros, pid=[4000] * rows, start_ticks=zeros, nodes=("node-0",)
    )
    beats = Beats(
        step=[5] * rows, step_age_s=[30.0] * rows, batch=zeros, calls=[9] * rows, collectives=zeros,
        activity_age_s=[30.0] * rows, phase=[Phase.COLLECTIVE if now else Phase.OTHER for now in inside],
        phase_age_s=[30.0] * rows, tick_age_s=[0.1] * rows, state=[ord("S")] * rows, cpu_s=zeros, io_bytes=zeros,
        has_page=[1] * rows,
    )  # fmt: skip
    sample = Sample(
        rank=[0], role=[Role.RANK], index=[-1], pid=[4000], sighting=[0], fetching=[-1], fetch_age_s=[np.inf],
        cpu_s=[1.0], io_bytes=[0], tick_age_s=[0.1], sightings=(look,),
    )  # fmt: skip
    comms = Comms(
        groups=(Group("gloo", "0", "replicas", tuple(lane << 32 for lane in LANES)),),
        calls=(CallSpec("all_reduce"),),
        progress=Progress(
            rank=zeros, lane=LANES, group=zeros, enqueued=[6 + now for now in inside], started=zeros,
            completed=[6] * rows, oldest_open=[7 * now for now in inside], first_kept=[1] * rows,
        ),
        ops=Ops(
            rank=[0] * 3, lane=held, group=[0] * 3, seq=[7] * 3, call=[0] * 3, state=[OpState.ENQUEUED] * 3,
            frame=[-1] * 3,
        ),
    )  # fmt: skip
    return Snapshot(
        job="mirrored", world_size=1, stalled_for_s=30.0, roster=roster, beats=beats,
        looks=(Look(sample, comms),) * 2,
    )  # fmt: skip


def test_stuck_replica_is_named_and_the_others_wait_for_it():
    """By its lane, in the sentence, the report and the contract."""
    snapshot = mirrored()
    verdict = judge(snapshot)
    incident = replay(snapshot, verdict)
    said = verdict_json(incident)

    assert verdict.summary == (
        "replica 1 sleeps in data.py:7 augment; replicas 0,2-3 wait for it in all_reduce #7 of replicas"
    )
    assert verdict.culprit_members == (STUCK << 32,)
    assert [(one["rank"], one["lane"]) for one in said["culprits"]] == [(0, 1)]
    assert (said["world_size"], said["members"]) == (1, 4)
    assert [(one["ranks"], one["lanes"]) for one in said["waiting"]] == [("0", "0,2-3")]
    assert "(replica 1, node-0, pid 4000)" in format_report(incident)
    assert any(
        "replicas 0,2-3 entered and did not leave; replica 1 has not entered" in e for e in verdict.evidence
    )


def test_death_of_their_process_is_told_once_and_of_the_rank():
    """Four replicas in one process are one death."""
    gone = Gone(0, Role.RANK, -1, 4000, Departure.VANISHED, 1.0, signal=9)
    verdict = judge(replace(mirrored(), gone=(gone,)))

    assert verdict.summary.startswith("rank 0 (pid 4000) vanished without a word: killed by SIGKILL")
    assert [(one.rank, one.lane) for one in verdict.culprits] == [(0, None)]
