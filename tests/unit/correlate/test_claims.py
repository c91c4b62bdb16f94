"""A verdict is values first; its words are made of them at the very end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.correlate.judge import judge
from ddetect.frameworks.torch import TORCH
from ddetect.model import Culprit, Roster, Snapshot, Words
from ddetect.model.claims import Each, Held
from ddetect.model.deeds import Act
from ddetect.report.deeds import deed_words
from ddetect.report.sentences import say
from tests.unit.correlate.scenes import scene

SCENES = {
    "loader": scene(all_reduce=[0, 1, 3], loader=[2]),
    "several": scene(all_reduce=[0], loader=[1], asleep=[2], lock=[3]),
    "stopped": scene(all_reduce=[0, 1], stopped=[2]),
    "undecided": Snapshot(world_size=2),
}


@pytest.mark.parametrize("snapshot", SCENES.values(), ids=list(SCENES))
def test_summary_and_deeds_are_said_from_the_values_of_the_verdict(snapshot):
    """A page or another format can say them again, in its own way."""
    verdict = judge(snapshot)

    assert verdict.claims
    assert verdict.summary == say(verdict.claims, verdict.names)
    for culprit in verdict.culprits:
        assert culprit.deed is not None
        assert culprit.doing == deed_words(culprit.deed, verdict.names)


def test_claims_of_a_loader_hang_hold_who_what_where_and_in_which_process():
    """Numbers and names, no sentence."""
    each, held = judge(SCENES["loader"]).claims

    assert isinstance(each, Each)
    assert isinstance(held, Held)
    ((member, deed),) = each.deeds
    assert (member, deed.act, deed.inner.act) == (2, Act.WAITS_FOR_LOADER, Act.SLEEPS)
    assert (deed.process.role, deed.inner.where.function) == ("loader_worker", "read_shard")
    assert [(wait.members, wait.op.name) for wait in held.waits] == [((0, 1, 3), "all_reduce")]


def test_other_words_change_the_sentence_and_nothing_else():
    """The same job, told as another framework's people would: judged alike."""
    torch = judge(SCENES["loader"])
    words = Words(member="task", loader="its tf.data pipeline")
    other = judge(SCENES["loader"], frameworks={"torch": replace(TORCH, words=words)})

    assert other.summary.startswith("task 2 waits for its tf.data pipeline: loader worker ")
    assert "; tasks 0-1,3 wait for it in all_reduce" in other.summary
    assert (other.claims, other.waiting, other.confidence) == (torch.claims, torch.waiting, torch.confidence)
    assert [_where(one) for one in other.culprits] == [_where(one) for one in torch.culprits]


def _where(culprit: Culprit) -> Culprit:
    return replace(culprit, doing="")


@pytest.mark.parametrize(
    ("ranks", "lanes", "world", "members"),
    [((0, 1), (0, 0), 2, 2), ((0, 0, 0), (0, 1, 2), 1, 3), ((0, 0), (0, 1), 4, 8)],
)
def test_members_are_ranks_times_lanes(ranks, lanes, world, members):
    """A rank that nobody has heard of is taken to have as many lanes as the others."""
    zeros = [0] * len(ranks)
    roster = Roster(rank=ranks, lane=lanes, node=zeros, pid=zeros, start_ticks=zeros, nodes=("a",))

    assert Snapshot(world_size=world, roster=roster).members == members
