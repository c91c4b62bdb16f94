"""Nodes of an elastic job come and go: who holds a rank now, and which nodes are put aside."""

from __future__ import annotations

from dataclasses import fields

from ddetect.coordinator.events import Heard, Lost, Tick
from ddetect.messages import NodeBeat, NodeRoster
from ddetect.model import Beats, Proof, Roster, Settings, Status, Verdict
from tests.unit.coordinator.inline import Inline

WELL = Verdict(Status.HEALTHY, None, Proof.TIME, 0.9, "all moves")


class Elastic:
    """A job of nodes that come and go; every message is followed by a beat of everybody who is there."""

    def __init__(self) -> None:
        self.job = Inline("job", Settings(), judge=lambda snapshot: WELL)
        self.now = 100.0
        self.versions: dict[str, tuple[int, int]] = {}

    def holds(self, node: str, ranks: list[int], *, world: int, pid: int) -> None:
        """The node tells which ranks it has, in processes from `pid` on."""
        count = len(ranks)
        pids = list(range(pid, pid + count))
        version = self.versions.get(node, (0, 0))[0] + 1
        self.versions[node] = (version, count)
        roster = Roster(ranks, [0] * count, [0] * count, pids, pids, (node,))
        self._send(Heard(node, NodeRoster(version, world, 0, roster)))
        self.run(1)

    def loses(self, node: str) -> None:
        del self.versions[node]
        self._send(Lost(node))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            for node, (version, count) in self.versions.items():
                columns = {item.name: [0] * count for item in fields(Beats)} | {
                    "step": [100] * count,
                    "has_page": [1] * count,
                    "state": [ord("S")] * count,
                }
                self._send(Heard(node, NodeBeat(version, Beats(**columns))))
            self._send(Tick())

    def _send(self, event: Heard | Lost | Tick) -> None:
        self.job.on(event, now=self.now, unix_ns=int(self.now * 1e9))

    def roster(self) -> list[tuple[int, int, str]]:
        roster = self.job.nodes.roster()
        return [
            (int(rank), int(pid), roster.nodes[int(node)])
            for rank, pid, node in zip(roster.rank, roster.pid, roster.node, strict=True)
        ]


def test_node_that_left_an_elastic_job_is_forgotten():
    """Its ranks are held by others now, or are no ranks any more: no phantoms, no wrong host, no wrong world."""
    job = Elastic()
    job.holds("node-a", [0, 1], world=4, pid=11)
    job.holds("node-b", [2, 3], world=4, pid=21)
    job.loses("node-a")
    job.holds("node-b", [0, 1], world=2, pid=31)
    job.run(60)

    nodes = job.job.nodes
    assert job.roster() == [(0, 31, "node-b"), (1, 32, "node-b")]
    assert (nodes.world_size(), nodes.unheard(job.now), list(nodes.nodes)) == (2, (), ["node-b"])


def test_node_beyond_the_new_world_is_forgotten_when_it_falls_silent():
    """The one with the highest ranks left, and its stream never ended."""
    job = Elastic()
    job.holds("node-a", [0, 1], world=4, pid=11)
    job.holds("node-b", [2, 3], world=4, pid=21)
    del job.versions["node-b"]
    job.holds("node-a", [0, 1], world=2, pid=31)
    job.run(60)

    assert job.roster() == [(0, 31, "node-a"), (1, 32, "node-a")]
    assert job.job.nodes.world_size() == 2


def test_node_that_took_the_ranks_of_another_speaks_for_them():
    """A spare took over: told before the survivors restart, and the dead node is forgotten all the same."""
    job = Elastic()
    job.holds("node-a", [0, 1], world=4, pid=11)
    job.holds("node-b", [2, 3], world=4, pid=21)
    job.loses("node-a")
    job.holds("node-c", [0, 1], world=4, pid=41)
    job.holds("node-b", [2, 3], world=4, pid=31)
    job.run(60)

    assert sorted(job.roster()) == [
        (0, 41, "node-c"),
        (1, 42, "node-c"),
        (2, 31, "node-b"),
        (3, 32, "node-b"),
    ]


def test_of_two_living_claims_to_a_rank_the_newer_speaks():
    """Both agents can be heard: who came last has the rank."""
    job = Elastic()
    job.holds("node-a", [0, 1], world=4, pid=11)
    job.holds("node-b", [2, 3], world=4, pid=21)
    job.holds("node-b", [0, 1], world=2, pid=31)
    job.run(60)

    assert [pid for _, pid, _ in job.roster()] == [31, 32]
    assert job.job.nodes.world_size() == 2


def test_silent_node_whose_ranks_nobody_else_holds_is_kept():
    """A restart that a node cannot tell of: its ranks stay a row with a reason."""
    job = Elastic()
    job.holds("node-a", [0, 1], world=4, pid=11)
    job.holds("node-b", [2, 3], world=4, pid=21)
    job.loses("node-b")
    job.holds("node-a", [0, 1], world=4, pid=31)
    job.run(60)

    (unheard,) = job.job.nodes.unheard(job.now)
    assert (unheard.ranks, len(job.roster())) == ((2, 3), 4)


def test_forgotten_node_that_speaks_again_is_there_again():
    """It was cut off, not gone: what it tells is taken, and its restart is not another attempt."""
    job = Elastic()
    job.holds("node-a", [0, 1], world=4, pid=11)
    job.holds("node-b", [2, 3], world=4, pid=21)
    job.loses("node-a")
    job.holds("node-b", [0, 1], world=4, pid=31)
    job.run(10)
    assert list(job.job.nodes.nodes) == ["node-b"]

    job.versions["node-a"] = (1, 2)
    job.holds("node-a", [2, 3], world=4, pid=51)
    job.run(10)

    assert sorted(rank for rank, _, _ in job.roster()) == [0, 1, 2, 3]
    assert job.job.attempt == 1
