"""Several faults at once: all that are equally strong are named, whatever their numbers; the stronger go before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate import confidence
from ddetect.correlate.judge import judge
from ddetect.model import CallSpec, Cause, Group, P2PKind, Phase, Proof, Snapshot, Status
from tests.unit.correlate.scenes import SLEEPS, TRAIN, Row, build, in_call, relabel, scene, sighting, thread


def circles(*pairs: tuple[int, int]) -> Snapshot:
    """Each pair receives from each other, and nobody sends."""
    builder = build(2 * len(pairs))
    for one, other in pairs:
        for rank, peer in ((one, other), (other, one)):
            builder.p2p.append((rank, P2PKind.RECV, peer, 0, 1))
            builder.rows[rank] = Row(in_call("recv"), Phase.P2P)
    return builder.snapshot()


def disagreeing_pairs(odd: dict[str, int], seq: dict[str, int] | None = None) -> Snapshot:
    """Groups tp0 of ranks 0-2 and tp1 of ranks 3-5; in each one rank calls another shape."""
    groups = [Group("gloo", "1", "tp0", (0, 1, 2)), Group("gloo", "2", "tp1", (3, 4, 5))]
    builder = build(6, groups)
    for number, group in enumerate(groups):
        for rank in group.members:
            size = 9 if odd[group.desc] == rank else 8
            builder.enters(
                rank, "all_reduce", group=number, seq=(seq or {}).get(group.desc, 412),
                signature=CallSpec("all_reduce", f"[[{size}]]", "[Float]"),
            )  # fmt: skip
    return builder.snapshot()


def aged(snapshot: Snapshot, ages: dict[int, float]) -> Snapshot:
    """The same, but these ranks did something that many seconds ago."""
    age = snapshot.beats.activity_age_s.copy()
    for rank, age_s in ages.items():
        age[snapshot.roster.rank == rank] = age_s
    return replace(snapshot, beats=replace(snapshot.beats, activity_age_s=age))


@pytest.mark.parametrize(("loader", "asleep"), [(2, 3), (3, 2)])
def test_two_ranks_with_different_causes_are_both_named_each_with_its_reason(loader, asleep):
    """Neither number nor words choose between them; the cause is told from equals by its name alone."""
    verdict = judge(scene(all_reduce=[0, 1], loader=[loader], asleep=[asleep]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (
        Status.HANG,
        Cause.DATA_LOADING,
        (2, 3),
    )
    assert f"rank {loader} waits for its DataLoader" in verdict.summary
    assert f"rank {asleep} sleeps in train.py:55 evaluate" in verdict.summary
    assert verdict.summary.count("ranks 0-1 wait for them in all_reduce") == 1
    assert verdict.settled == confidence.times(confidence.NEVER_ENTERED, confidence.SEVERAL_CAUSES)
    assert {culprit.rank: culprit.doing.split()[0] for culprit in verdict.culprits} == {
        loader: "waits",
        asleep: "sleeps",
    }


def test_largest_class_gives_the_cause():
    """Two asleep and one in its loader: user code, and all three are named."""
    verdict = judge(scene(all_reduce=[0], loader=[1], asleep=[2, 3]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (1, 2, 3))
    assert verdict.summary.startswith("each of ranks 2-3 sleeps")


def test_advice_is_given_for_each_cause_about_its_own_process():
    """A loader worker that was stopped goes on with a signal; a rank at a debugger prompt does not."""
    stopped = replace(scene(loader=[1]).samples[0].sightings[-1], state="T")
    builder = build(3)
    builder.enters(0, "all_reduce")
    builder.does(1, "loader").workers = (stopped,)
    builder.does(2, "pdb")

    verdict = judge(builder.snapshot())

    assert verdict.culprit_ranks == (1, 2)
    assert [line for line in verdict.advice if "CONT" in line] == ["Type `kill -CONT 4011` on node-0."]
    assert any("--pid 4020" in line for line in verdict.advice)


def test_more_than_two_reasons_are_counted_and_their_ranks_are_told():
    """A sentence stays a sentence."""
    verdict = judge(scene(all_reduce=[0], loader=[1], asleep=[2], lock=[3], flock=[4]))

    assert verdict.culprit_ranks == (1, 2, 3, 4)
    assert "; and 2 more ranks (2,4); rank 0 waits" in verdict.summary


def test_ranks_that_no_sentence_names_are_counted_once():
    """Three lines of user code and three other causes: two sentences per cause, two causes, and one rest for all."""
    builder = build(8)
    builder.enters(0, "all_reduce")
    for rank, line in ((1, 55), (2, 56), (6, 57)):
        builder.rows[rank] = Row(sighting(thread(f"evaluate /job/train.py:{line}", *TRAIN, **SLEEPS)))
    for rank, name in ((3, "loader"), (4, "queue"), (5, "flock"), (7, "flock")):
        builder.does(rank, name)

    summary = judge(builder.snapshot()).summary

    assert "more like them" not in summary
    assert summary.count(" more rank") == 1
    assert "; and 3 more ranks (3-4,6); rank 0 waits for them" in summary


def test_more_than_two_lines_are_counted_where_nobody_waits():
    """No rank is left out in silence."""
    builder = build(3)
    for rank in range(3):
        builder.rows[rank] = Row(sighting(thread(f"evaluate /job/train.py:{rank + 1}", *TRAIN, **SLEEPS)))

    assert judge(builder.snapshot()).summary.endswith("; and 1 more rank (2)")


def test_proof_goes_before_numbers():
    """A debugger prompt proves a hang by itself; who sleeps is mentioned, whatever the numbers."""
    for pdb, loader in ((1, 2), (2, 1)):
        verdict = judge(scene(all_reduce=[0], pdb=[pdb], loader=[loader]))

        assert (verdict.culprit_ranks, verdict.proof) == ((pdb,), Proof.STRUCTURAL)
        assert any(line.startswith(f"also: rank {loader} waits for its") for line in verdict.evidence)


def test_rank_that_moved_long_after_the_other_is_not_its_equal():
    """One has stood still for five minutes, the other for eight seconds: the first is named."""
    both = scene(all_reduce=[0, 1], loader=[2], asleep=[3])

    assert judge(aged(both, {2: 300.0})).culprit_ranks == (2,)
    assert judge(aged(both, {3: 300.0})).culprit_ranks == (3,)
    assert judge(aged(both, {2: 300.0, 3: 290.0})).culprit_ranks == (2, 3)


def test_rank_of_unknown_age_is_as_strong_as_any():
    """Unknown is not zero."""
    both = scene(all_reduce=[0, 1], loader=[2], asleep=[3])

    assert judge(aged(both, {2: np.nan})).culprit_ranks == (2, 3)


@pytest.mark.parametrize("pairs", [((0, 1), (2, 3)), ((0, 3), (1, 2))])
def test_two_circles_are_both_named(pairs):
    """Each is a deadlock by itself, and each is told."""
    verdict = judge(circles(*pairs))

    assert (verdict.cause, verdict.proof, verdict.culprit_ranks) == (
        Cause.P2P_DEADLOCK,
        Proof.STRUCTURAL,
        (0, 1, 2, 3),
    )
    assert verdict.summary.count("wait for each other") == 2
    assert verdict.confidence == confidence.CYCLE


def test_three_circles_are_two_and_one_more():
    """A sentence stays a sentence."""
    verdict = judge(circles((0, 1), (2, 3), (4, 5)))

    assert verdict.culprit_ranks == (0, 1, 2, 3, 4, 5)
    assert verdict.summary.count("wait for each other") == 2
    assert "; and 2 more ranks (4-5)" in verdict.summary


def test_circles_of_two_kinds_are_both_named():
    """One pair disagrees on the order of groups, the other exchanges without a send."""
    groups = [Group("gloo", "1", "tp", (0, 1)), Group("gloo", "2", "dp", (0, 1))]
    builder = build(4, groups, seq=5)
    builder.enters(0, "all_reduce", group=0)
    builder.enters(1, "all_reduce", group=1)
    builder.rows[0].enqueued[1] = builder.rows[1].enqueued[0] = 4
    for rank, peer in ((2, 3), (3, 2)):
        builder.p2p.append((rank, P2PKind.RECV, peer, -1, 1))
        builder.rows[rank] = Row(in_call("recv"), Phase.P2P)
    snapshot = builder.snapshot()

    for order in ([0, 1, 2, 3], [2, 3, 0, 1]):
        verdict = judge(relabel(snapshot, order))

        assert (verdict.cause, verdict.culprit_ranks) == (Cause.GROUP_ORDER_DEADLOCK, (0, 1, 2, 3))
        assert verdict.confidence == confidence.times(confidence.CYCLE, confidence.SEVERAL_CAUSES)


@pytest.mark.parametrize("seq", [{}, {"tp0": 412, "tp1": 3}, {"tp0": 3, "tp1": 412}])
def test_the_same_mismatch_in_two_groups_names_the_odd_rank_of_both(seq):
    """Sequence numbers of two groups do not compare: neither group is the first."""
    verdict = judge(disagreeing_pairs({"tp0": 2, "tp1": 5}, seq))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.COLLECTIVE_MISMATCH, (2, 5))
    assert "of tp0" in verdict.summary
    assert "of tp1" in verdict.summary
    assert verdict.confidence == confidence.MISMATCH


def test_each_of_many_equal_faults_keeps_evidence():
    """The first does not push the last out."""
    verdict = judge(disagreeing_pairs({"tp0": 2, "tp1": 5}))

    assert any("rank 2 called" in line for line in verdict.evidence)
    assert any("rank 5 called" in line for line in verdict.evidence)


def test_classes_of_one_size_are_all_named_where_nobody_waits():
    """Two load and two sleep: no number chooses. Where one class is larger, it is named, as before."""
    assert judge(scene(loader=[0, 3], asleep=[1, 2])).culprit_ranks == (0, 1, 2, 3)
    assert judge(scene(loader=[0], asleep=[1, 2])).culprit_ranks == (1, 2)
