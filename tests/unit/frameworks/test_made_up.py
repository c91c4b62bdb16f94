"""A framework that is written and registered outside the package is judged by its own rules, in its own words."""

from __future__ import annotations

from dataclasses import replace

from ddetect.agent.members import JobProcess
from ddetect.correlate.judge import judge
from ddetect.frameworks import FRAMEWORKS
from ddetect.frameworks.framework import Framework, Operation
from ddetect.model import Cause, Comms, Phase, Role, Snapshot, Verdict
from ddetect.model.tables import join
from tests.unit.correlate.scenes import FUTEX, SITE, TRAIN, Row, build, sighting, thread
from tests.unit.frameworks.swarm import HOLDERS, NEIGHBOURS, SWARM, SwarmSource
from tests.unit.snapshots import changed


def in_call(op: str) -> Row:
    look = sighting(thread(f"{op} {SITE}/swarm/ops.py:7", *TRAIN, **FUTEX))
    return Row(look, Phase.COLLECTIVE)


def stuck_swarm() -> Snapshot:
    """Bee 0 pulls a shard that 1 or 2 could give; 1 meets 3, which is stuck in its loader; 2 minds its own business."""
    source = SwarmSource({0: ("pull", HOLDERS), 1: ("meet", NEIGHBOURS)})
    told = [source.read(JobProcess(4000 + 10 * rank, 1, Role.RANK, rank)).comms for rank in range(4)]
    builder = build(4)
    builder.rows = {0: in_call("pull"), 1: in_call("meet")}
    builder.does(2, "asleep")
    builder.does(3, "loader")
    comms = join(Comms, told)
    parts = {name: getattr(comms, name) for name in ("groups", "calls", "frames", "progress", "ops", "p2p")}
    return changed(replace(builder.snapshot(), framework="swarm"), **parts)


def named(verdict: Verdict) -> tuple[Cause | None, tuple[int, ...]]:
    return verdict.cause, verdict.culprit_ranks


def test_one_of_two_is_enough_by_the_rule_of_the_framework():
    """Who could have answered and need not is not blamed: the one that is certainly waited for is."""
    verdict = judge(stuck_swarm(), frameworks={**FRAMEWORKS, "swarm": SWARM})

    assert verdict.culprit_ranks == (3,), verdict.summary
    assert verdict.summary.startswith("bee 3 waits for its loader: ")
    assert {(item.on, item.ranks) for item in verdict.waiting} >= {("pull", (0,)), ("meet", (1,))}


def test_framework_is_judged_without_torch_in_the_registry():
    """Nothing of what decides is torch's."""
    assert named(judge(stuck_swarm(), frameworks={"swarm": SWARM})) == named(
        judge(stuck_swarm(), frameworks={**FRAMEWORKS, "swarm": SWARM})
    )


def test_rule_of_the_framework_is_what_decides():
    """With the rule that everybody must come, both absentees are waited for."""

    def everybody(spec: object) -> Operation:
        return Operation(getattr(spec, "op", "a call"))

    strict: Framework = replace(SWARM, operation=everybody)

    assert judge(stuck_swarm(), frameworks={"swarm": strict}).culprit_ranks == (2, 3)


def test_framework_that_nobody_registered_names_nobody_wrongly():
    """Its stacks mean nothing to us: then less is said, and never about somebody else."""
    verdict = judge(stuck_swarm(), frameworks=FRAMEWORKS)

    assert set(verdict.culprit_ranks) <= {2, 3}, verdict.summary
