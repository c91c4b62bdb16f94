"""Hand-made incidents of several shapes, for tests of what is said about them."""

from __future__ import annotations

from dataclasses import replace

from ddetect.model import (
    Cause,
    Closed,
    Culprit,
    Incident,
    Judgement,
    Process,
    Proof,
    Stage,
    Status,
    Unread,
    Verdict,
    Waiting,
    Where,
)

JUDGED_NS = 1_767_236_400_000_000_000  # 2026-01-01 03:00:00 UTC


def loader_hang() -> Incident:
    """Rank 2's loader worker 1 sleeps; three ranks wait."""
    verdict = Verdict(
        status=Status.HANG,
        cause=Cause.DATA_LOADING,
        proof=Proof.TIME,
        confidence=0.97,
        summary="rank 2 waits for its DataLoader: loader worker 1 (pid 4711) sleeps in dataset.py:88 "
        "read_shard; ranks 0-1,3 wait for it in all_reduce #412 of default_pg",
        culprits=(
            Culprit(
                rank=2,
                host="node-0",
                pid=4705,
                process=Process("loader_worker", 1, 4711),
                where=Where("read_shard", "dataset.py", 88),
                doing="sleeps in read_shard",
            ),
        ),
        waiting=(Waiting((0, 1, 3), "all_reduce", "gloo", "default_pg", 412),),
        evidence=("3 of 3 samples show read_shard at line 88", "loader worker 1 fetches index 96 for 61 s"),
        advice=("Look at the storage that read_shard reads.",),
    )
    return Incident(
        number=1,
        stage=Stage.CONFIRMED,
        verdict=verdict,
        job="night-run",
        attempt=0,
        world_size=4,
        stalled_for_s=72.04,
        last_progress_unix_ns=JUDGED_NS - 4_000_000_000,
        judged_at_unix_ns=JUDGED_NS,
        confirmed_at_unix_ns=JUDGED_NS + 60_000_000_000,
    )


def library_line() -> Incident:
    """The same, and no line of the user's is known."""
    incident = loader_hang()
    (culprit,) = incident.verdict.culprits
    culprit = replace(culprit, where=Where("url_opener", "tariterators.py", 88, library=True))
    return replace(incident, verdict=replace(incident.verdict, culprits=(culprit,)))


def mismatch() -> Incident:
    """Two against two: nobody is the single culprit, no line is known for one side."""
    verdict = Verdict(
        status=Status.HANG,
        cause=Cause.COLLECTIVE_MISMATCH,
        proof=Proof.STRUCTURAL,
        confidence=0.9,
        summary="ranks 0-1 and ranks 2-3 call different operations as #7 of default_pg: reduce, broadcast",
        culprits=tuple(Culprit(rank=rank, host="node-0") for rank in range(4)),
        evidence=("ranks 0-1: all_reduce [[16]] Float", "ranks 2-3: broadcast [[16]] Float"),
        advice=("Make every rank take the same branch before this operation.",),
    )
    return replace(loader_hang(), number=2, verdict=verdict, stalled_for_s=4.2)


def undecided() -> Incident:
    """One rank could not be read, so nobody is blamed."""
    verdict = Verdict(
        status=Status.UNDECIDED,
        cause=None,
        proof=Proof.TIME,
        confidence=0.0,
        summary="no progress, and rank 7, which the others wait for, could not be read",
        waiting=(Waiting(tuple(range(7)), "all_reduce", "gloo", "default_pg", 9),),
        unread=(Unread((7,), "ptrace is not permitted on node-1 (yama scope 3)"),),
    )
    return replace(
        loader_hang(),
        number=3,
        stage=Stage.SUSPECTED,
        verdict=verdict,
        world_size=8,
        confirmed_at_unix_ns=None,
    )


def closed() -> Incident:
    """Suspected to be user code, then data loading, then it moved again."""
    earlier = Judgement(
        Stage.SUSPECTED, Status.HANG, Cause.USER_CODE, (2,), "rank 2 sleeps in train.py:10 step", JUDGED_NS
    )
    same = Judgement(
        Stage.SUSPECTED, Status.HANG, Cause.DATA_LOADING, (2,), "as it was said before", JUDGED_NS
    )
    return replace(
        loader_hang(),
        number=4,
        stage=Stage.CLOSED,
        history=(earlier, same),
        closed=Closed("progress resumed: step 413", 75.5, JUDGED_NS + 75_500_000_000, recovered=True),
    )
