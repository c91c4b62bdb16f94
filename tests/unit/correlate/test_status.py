"""Who died first, who left, who never came, and when all is well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.judge import judge
from ddetect.model import (
    Beats,
    Cause,
    Departure,
    Frame,
    Gone,
    Phase,
    Proof,
    Raised,
    Role,
    Snapshot,
    Status,
    Where,
)
from tests.unit.correlate.scenes import DOINGS, build, died, scene

RAISED, VANISHED, EXITED = Departure.RAISED, Departure.VANISHED, Departure.EXITED
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4711"


def test_uncaught_exception_stops_the_job_and_names_the_line():
    """A rank that raised is the first fault, whoever waits."""
    gone = died(2, RAISED, exception="ValueError: bad shard", where=Frame("parse", "/job/data.py", 12))

    verdict = judge(scene(all_reduce=[0, 1, 3], gone=[gone]))

    assert (verdict.status, verdict.cause, verdict.proof) == (
        Status.STOPPED,
        Cause.PYTHON_EXCEPTION,
        Proof.STRUCTURAL,
    )
    assert (verdict.culprit_ranks, verdict.culprits[0].where) == ((2,), Where("parse", "data.py", 12))
    assert "ValueError: bad shard" in verdict.summary


def test_vanished_rank_was_killed():
    """Gone without a word means killed."""
    verdict = judge(scene(all_reduce=[0, 1], gone=[died(2, VANISHED)]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (
        Status.STOPPED,
        Cause.KILLED_BY_SIGNAL,
        (2,),
    )


def test_closed_connections_are_consequences_even_when_seen_first():
    """Peers raise at once and the killed rank is seen a moment later: it is still the first fault."""
    gone = [died(r, RAISED, age_s=5.5, exception=CLOSED) for r in (0, 1, 3)] + [died(2, VANISHED, age_s=5.0)]

    verdict = judge(scene(gone=gone))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.KILLED_BY_SIGNAL, (2,))
    assert any("a consequence" in line for line in verdict.evidence)


def test_rank_killed_by_another_signal_comes_before_those_the_launcher_ended():
    """torchrun ends the others with SIGTERM within a tenth of a second: the kernel's word tells who was first."""
    gone = [
        replace(died(1, Departure.VANISHED, age_s=2.0), signal=15),
        replace(died(2, Departure.VANISHED), signal=9),
    ]
    gone[1] = replace(gone[1], age_s=1.9)

    verdict = judge(scene(world=4, gone=gone, all_reduce=[0, 3]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.KILLED_BY_SIGNAL, (2,))
    assert "SIGKILL" in verdict.summary


@pytest.mark.parametrize(
    ("said", "ended_age_s", "named", "cause"),
    [
        ("connectFullMesh failed: Connection refused", 0.5, (), None),
        ("connectFullMesh failed: Connection refused", 1.7, (), None),
        ("connectFullMesh failed: Connection refused", 2.1, (2,), Cause.KILLED_BY_SIGNAL),
        ("Connection closed by peer", 1.85, (2,), Cause.KILLED_BY_SIGNAL),
        ("Connection closed by peer", 0.8, (2,), Cause.KILLED_BY_SIGNAL),
        ("Connection closed by peer", 0.1, (), None),
    ],
    ids=[
        "refused before",
        "refused just before",
        "refused after",
        "closed after",
        "noticed late",
        "ended later",
    ],
)
def test_rank_that_the_launcher_ended_is_not_blamed_for_errors_before_it(said, ended_age_s, named, cause):
    """Only consequences and a SIGTERM: who saw a connection close saw that rank die, however late we noticed.

    Where nobody saw the first fault nobody is named.
    """
    gone = [
        died(0, Departure.RAISED, age_s=1.8, exception=f"RuntimeError: {said}"),
        died(1, Departure.RAISED, age_s=1.75, exception=f"RuntimeError: {said}"),
        replace(died(2, Departure.VANISHED, age_s=ended_age_s), signal=15),
    ]

    verdict = judge(scene(world=3, gone=gone))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.STOPPED, cause, named)


def test_rank_on_its_way_out_for_whom_nobody_waits_needs_time_to_be_a_hang():
    """Every job ends: a slow teardown contradicts nothing."""
    verdict = judge(scene(leaving=[0, 1]))

    assert verdict.proof is Proof.TIME


def test_rank_that_works_on_after_training_is_well():
    """The group is left, the export goes on at one place for minutes: nobody waits, nothing hangs."""
    builder = build(2)
    for rank in (0, 1):
        builder.does(rank, "asleep")
        builder.rows[rank].phase = Phase.LEAVING

    assert judge(builder.snapshot()).status is Status.HEALTHY


def test_worker_that_died_long_before_the_wait_is_no_cause():
    """An evaluation loader's worker ended two hours ago; today's data stall has another reason."""
    gone = [Gone(2, Role.LOADER_WORKER, 6, 4999, VANISHED, 7200.0)]

    verdict = judge(scene(all_reduce=[0, 1, 3], loader=[2], gone=gone))

    assert (verdict.status, verdict.cause) == (Status.HANG, Cause.DATA_LOADING)


def test_exception_comes_before_those_the_launcher_killed():
    """torchrun ends the others within the same second: what was raised is the fault."""
    gone = [
        died(0, VANISHED, age_s=4.0),
        died(1, RAISED, age_s=4.0, exception="KeyError: 'x'"),
        died(2, VANISHED, age_s=4.0),
    ]

    assert judge(scene(gone=gone)).culprit_ranks == (1,)


def test_older_death_comes_first():
    """Of two faults far apart the older one counts."""
    gone = [died(0, RAISED, age_s=2.0, exception="KeyError: 'x'"), died(1, VANISHED, age_s=9.0)]

    assert judge(scene(world=3, all_reduce=[2], gone=gone)).culprit_ranks == (1,)


def worker(rank: int, index: int, age_s: float = 6.0) -> Gone:
    return Gone(rank, Role.LOADER_WORKER, index, 4001 + 10 * rank + index, VANISHED, age_s)


def test_dead_loader_worker_is_the_fault_and_its_ranks_error_the_consequence():
    """torch raises in the rank because the worker was killed: the worker is named."""
    said = "RuntimeError: DataLoader worker (pid 4012) is killed by signal: Killed. "

    verdict = judge(scene(all_reduce=[0], gone=[worker(1, 1), died(1, RAISED, exception=said)]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (
        Status.STOPPED,
        Cause.KILLED_BY_SIGNAL,
        (1,),
    )
    assert verdict.culprits[0].process is not None
    assert (verdict.culprits[0].process.role, verdict.culprits[0].process.pid) == ("loader_worker", 4012)


def test_dead_loader_worker_is_the_fault_while_its_rank_is_still_on_its_way_out():
    """Tearing down takes seconds: what the rank has raised names the worker already."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "exiting")
    said = "RuntimeError: DataLoader worker (pid 4012) is killed by signal: Killed. "
    row.look = replace(row.look, raised=Raised(said, fatal=True))
    builder.gone = [worker(1, 1)]

    verdict = judge(builder.snapshot())

    assert (verdict.status, verdict.cause) == (Status.STOPPED, Cause.KILLED_BY_SIGNAL)
    assert verdict.culprit_ranks == (1,)


def test_dead_loader_worker_while_its_rank_still_waits_is_the_fault():
    """Before torch notices, the rank waits for a worker that is gone."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "loader").workers = DOINGS["loader"].workers[:1]
    builder.gone = [worker(1, 1)]

    verdict = judge(builder.snapshot())

    assert (verdict.status, verdict.cause) == (Status.STOPPED, Cause.KILLED_BY_SIGNAL)


def test_workers_of_an_earlier_epoch_are_no_fault():
    """Workers vanish at the end of an epoch; new ones with the same index are alive."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "loader")
    builder.gone = [replace(worker(1, 1), pid=3333)]

    verdict = judge(builder.snapshot())

    assert (verdict.status, verdict.cause) == (Status.HANG, Cause.DATA_LOADING)


def test_rank_that_exited_while_others_wait_left_early():
    """Exit 0 with others in a collective is a hang of theirs and its fault."""
    verdict = judge(scene(all_reduce=[0, 1, 3], gone=[died(2, EXITED)]))

    assert (verdict.status, verdict.cause, verdict.proof) == (Status.HANG, Cause.LEFT_EARLY, Proof.STRUCTURAL)
    assert verdict.culprit_ranks == (2,)


def test_closed_connection_after_an_exit_in_peace_is_left_early():
    """The peers died of the connection that an early leaver closed."""
    gone = [
        died(2, EXITED, age_s=6.0),
        died(0, RAISED, age_s=5.0, exception=CLOSED),
        died(1, RAISED, age_s=5.0, exception=CLOSED),
    ]

    verdict = judge(scene(world=3, gone=gone))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.STOPPED, Cause.LEFT_EARLY, (2,))


def test_timeouts_of_the_waiters_lead_to_the_living_culprit():
    """Everybody else timed out and died; the rank that sleeps is still there."""
    slow = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"
    gone = [died(r, RAISED, exception=slow) for r in (0, 1)]

    verdict = judge(scene(world=3, asleep=[2], gone=gone))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.STOPPED, Cause.USER_CODE, (2,))


def test_only_consequences_and_nobody_left_says_so():
    """When the origin was never seen the oldest errors are shown with little confidence, and no victim is named."""
    verdict = judge(scene(gone=[died(0, RAISED, exception=CLOSED), died(1, RAISED, exception=CLOSED)]))

    assert (verdict.status, verdict.cause, verdict.culprits) == (Status.STOPPED, None, ())
    assert "ranks 0-1 raised RuntimeError: [pair.cc:534] Connection closed by peer" in verdict.summary
    assert "follows from another rank's fault, which was not seen" in verdict.summary
    assert verdict.confidence < 0.5


def test_everything_ended_cleanly_is_healthy():
    """All ranks exited without an error."""
    verdict = judge(scene(gone=[died(r, EXITED) for r in range(4)]))

    assert (verdict.status, verdict.cause) == (Status.HEALTHY, None)


def with_activity(snapshot: Snapshot, age_s: float) -> Snapshot:
    columns = {name: getattr(snapshot.beats, name) for name in Beats.__dataclass_fields__}
    columns["activity_age_s"] = np.full(len(snapshot.roster), age_s)
    return replace(snapshot, beats=Beats(**columns), stalled_for_s=age_s)


def test_job_that_moves_is_healthy_even_if_somebody_is_in_a_collective():
    """A look at a running job meets ranks in collectives; counters moved just now."""
    snapshot = with_activity(scene(all_reduce=[0, 1], asleep=[2]), 0.1)

    assert judge(snapshot).status is Status.HEALTHY


@pytest.mark.parametrize("late", [0, 3])
def test_rank_before_init_process_group_never_joined(late):
    """Others are in init_process_group, one has not called it: its line is shown."""
    others = [r for r in range(4) if r != late]

    verdict = judge(scene(joining=others, starting=[late]))

    assert (verdict.status, verdict.cause, verdict.proof) == (Status.HANG, Cause.RENDEZVOUS, Proof.TIME)
    assert (verdict.culprit_ranks, verdict.culprits[0].where) == ((late,), Where("download", "prepare.py", 5))
    assert verdict.waiting[0].on == "init_process_group"


def test_rank_without_a_process_never_joined():
    """A node that should have four ranks has three: the fourth is named though there is nothing to look at."""
    snapshot = scene(world=4, joining=[0, 1, 2])

    verdict = judge(replace(snapshot, roster=replace(snapshot.roster, local_world=np.full(3, 4))))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.RENDEZVOUS, (3,))
    assert verdict.culprits[0].pid is None


def test_everyone_in_init_process_group_names_nobody():
    """All try to join and do not find each other: the network, not a rank."""
    verdict = judge(scene(joining=[0, 1, 2]))

    assert (verdict.cause, verdict.culprits) == (Cause.RENDEZVOUS, ())


def test_stopped_rank_before_joining_is_a_stopped_process():
    """What the kernel says comes before what the phase says."""
    verdict = judge(scene(joining=[0, 1], stopped=[2]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.PROCESS_STOPPED, (2,))


def test_empty_snapshot_is_undecided():
    """Nothing known is not healthy."""
    assert judge(Snapshot()).status is Status.UNDECIDED


def test_ranks_that_vanished_in_one_moment_are_all_named_with_little_confidence():
    """Nobody saw which was first, so none is preferred."""
    verdict = judge(scene(gone=[died(r, VANISHED, age_s=0.3) for r in range(4)]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.KILLED_BY_SIGNAL, (0, 1, 2, 3))
    assert verdict.confidence < 0.5
