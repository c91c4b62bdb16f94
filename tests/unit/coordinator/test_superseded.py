"""An elastic restart in which the old node is still heard: who took its ranks speaks for them, alone."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ddetect.coordinator.events import Ask, Heard, Lost, Record, Tick
from ddetect.correlate.judge import judge
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import every_node_is_heard
from ddetect.messages import Evidence, FromAgent, NodeBeat, NodeGone, NodeRoster, TakeEvidence
from ddetect.model import (
    UNKNOWN,
    Beats,
    Comms,
    Departure,
    Gone,
    Group,
    Look,
    OpenP2P,
    Progress,
    Role,
    Roster,
    Sample,
    Settings,
    Snapshot,
    Unread,
)
from tests.unit.coordinator.inline import Inline
from tests.unit.correlate.scenes import DOINGS, in_call

OLD, NEW = DOINGS["asleep"].look, in_call("all_reduce")


class Restart:
    """Nodes with one process per rank, judged by the real judge; those asked answer in reverse order of asking."""

    def __init__(self) -> None:
        self.job = Inline("job", Settings(startup_s=3.0), judge=judge)
        self.now = 100.0
        self.rosters: dict[str, Roster] = {}
        self.versions: dict[str, int] = {}
        self.asked: list[str] = []
        self.records: list[Record] = []

    def holds(self, node: str, ranks: list[int], *, pid: int, world: int) -> None:
        count = len(ranks)
        pids = list(range(pid, pid + count))
        self.rosters[node] = Roster(
            ranks, [0] * count, [0] * count, pids, pids, (node,), local_world=[count] * count
        )
        self.versions[node] = self.versions.get(node, 0) + 1
        self.say(node, NodeRoster(self.versions[node], world, 0, self.rosters[node]))
        self.run(1)

    def say(self, node: str, message: FromAgent) -> None:
        self.event(Heard(node, message))

    def event(self, event: Heard | Lost | Tick) -> None:
        commands = self.job.on(event, now=self.now, unix_ns=int(self.now * 1e9))
        self.records += [command for command in commands if isinstance(command, Record)]
        asks = [command for command in commands if isinstance(command, Ask)]
        if asks:
            self.asked = [ask.node for ask in asks]
        for ask in sorted(asks, key=lambda ask: ask.node, reverse=True):  # node-a, the old one, is last
            if isinstance(ask.message, TakeEvidence):
                self.say(ask.node, self.evidence(ask.node, ask.message.request))

    def evidence(self, node: str, request: int) -> Evidence:
        roster = self.rosters[node]
        count, old = len(roster), node == "node-a"
        none = [UNKNOWN] * count
        zero = [0.0] * count
        sample = Sample(
            roster.rank, [Role.RANK] * count, none, roster.pid, [0] * count, none, zero, zero, none, zero,
            (OLD if old else NEW,),
        )  # fmt: skip
        one = [1] * count
        comms = Comms(
            groups=(Group("gloo", "0", "default_pg"),),
            progress=Progress(roster.rank, [0] * count, [0] * count, one, [0] * count, [0] * count, one, one),
            p2p=OpenP2P(roster.rank, [0] * count, one, roster.rank, one, [0] * count, one, zero),
        )
        unread = tuple(Unread((rank,), f"asked {node}") for rank in roster.rank.tolist())
        return Evidence(request, Look(sample, comms, unread))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            for node, roster in self.rosters.items():
                columns = {item.name: [0] * len(roster) for item in fields(Beats)} | {
                    "step_age_s": [np.inf] * len(roster),
                    "activity_age_s": [self.now - 100.0] * len(roster),
                    "has_page": [1] * len(roster),
                    "state": [ord("S")] * len(roster),
                }
                self.say(node, NodeBeat(self.versions[node], Beats(**columns)))
            self.event(Tick())

    def snapshot(self) -> Snapshot:
        return self.records[-1].snapshot


def seen(snapshot: Snapshot) -> Scene:
    return Scene(snapshot)


def test_old_node_whose_ranks_others_hold_is_not_asked_and_not_shown():
    """Its process may live for a while: it is no longer the rank."""
    job = Restart()
    job.holds("node-a", [1], pid=11, world=2)
    job.holds("node-b", [0, 1], pid=20, world=2)
    job.run(20)

    scene = seen(job.snapshot())
    assert job.asked == ["node-b"]
    assert (scene.pid(1), scene.rank_process(1).pid) == (21, 21)
    assert scene.rank_process(1).sighting == NEW
    for table in (scene.snapshot.roster, scene.snapshot.comms.progress, scene.snapshot.comms.p2p):
        assert sorted(table.rank.tolist()) == [0, 1]


def test_end_of_a_process_that_was_replaced_elsewhere_is_no_death_of_the_rank():
    """The old node may end what it has: another process is the rank now."""
    job = Restart()
    job.holds("node-a", [1], pid=11, world=2)
    job.holds("node-b", [0, 1], pid=20, world=2)
    job.say("node-a", NodeGone((Gone(1, Role.RANK, UNKNOWN, 11, Departure.VANISHED, 0.1, signal=9),)))
    job.run(4)

    assert job.job.gone == ()


def test_old_node_that_keeps_one_rank_speaks_for_that_one_only():
    """Rank 1 went to another node, rank 0 stays: each rank has one row in every table."""
    job = Restart()
    job.holds("node-a", [0, 1], pid=10, world=3)
    job.holds("node-b", [1, 2], pid=21, world=3)
    job.run(20)

    scene = seen(job.snapshot())
    assert sorted(job.asked) == ["node-a", "node-b"]
    assert [scene.rank_process(rank).pid for rank in range(3)] == [10, 21, 22]
    for table in (
        scene.snapshot.roster,
        scene.snapshot.comms.progress,
        scene.snapshot.comms.p2p,
        scene.snapshot.samples[-1],
    ):
        assert sorted(table.rank.tolist()) == [0, 1, 2]
    assert sorted((item.ranks, item.reason) for item in scene.snapshot.unread) == [
        ((0,), "asked node-a"),
        ((1,), "asked node-b"),
        ((2,), "asked node-b"),
    ]


def test_old_node_does_not_vouch_for_ranks_that_nobody_has_heard_of():
    """Two ranks here, two on a node that is not heard yet: what the old node was told to have is no part of it."""
    for ranks in ([0, 1], [1, 2]):
        job = Restart()
        job.holds("node-a", ranks, pid=11, world=4)
        job.holds("node-b", [0, 1], pid=21, world=4)
        job.run(20)

        assert not every_node_is_heard(seen(job.snapshot())), ranks


def test_old_node_that_tells_of_new_processes_has_ranks_again():
    """It joined the restart, only later."""
    job = Restart()
    job.holds("node-a", [0, 1], pid=11, world=2)
    job.holds("node-b", [0, 1], pid=21, world=4)
    job.holds("node-a", [2, 3], pid=31, world=4)
    job.run(20)

    scene = seen(job.snapshot())
    assert [scene.rank_process(rank).pid for rank in range(4)] == [21, 22, 31, 32]
    assert every_node_is_heard(scene)
