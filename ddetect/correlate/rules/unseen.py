"""Everybody who died did so because of somebody whom we did not see die: say what is known, blame no victim.

A node that fell silent before the others lost their connections is named; of several, the one that an error names, or
none. Without one the oldest errors are shown, as what they are, and nobody is named. Never a proof: the word of an
agent may be late.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit
from ddetect.correlate.rules.consequence import SEEN_LATE_S, deaths_of, saw_a_death
from ddetect.correlate.rules.death_words import death_deeds, death_lines
from ddetect.correlate.scene import Scene
from ddetect.model import Departure, Gone, Proof, Status
from ddetect.model.claims import FellSilent, OldestDeaths
from ddetect.model.deeds import Act, Deed

_FAILED_RANKS = re.compile(r"\branks? ([\d, ]+) failed to pass", re.IGNORECASE)


def connections_closed(scene: Scene) -> bool:
    """Whether every rank that raised had lost a connection: a living rank that is only late closes none."""
    raised = [gone for gone in deaths_of(scene) if gone.how is Departure.RAISED]
    return bool(raised) and all(saw_a_death(gone, scene.framework) for gone in raised)


def fell_silent(scene: Scene) -> list[Finding]:
    """Nodes were lost from sight, and ranks elsewhere died of it: the silent ones are where the fault is."""
    deaths = deaths_of(scene)
    silent = _silent_nodes(scene, deaths)
    if not deaths or not silent:
        return []
    named = _named(silent, deaths)
    nodes = tuple((node, tuple(ranks)) for node, ranks in silent.items())
    victims = tuple(gone.rank for gone in deaths)
    claim = FellSilent(nodes, victims, connections_closed(scene), tuple(sorted(named)))
    culprits = tuple(
        replace(one, host=one.host or node)
        for node, ranks in silent.items()
        for rank in ranks
        if rank in named
        for one in (culprit(scene, rank, Deed(Act.FELL_SILENT), whole=True),)
    )
    note = "whether the node, its network or only its agent is gone is not known"
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, None, Proof.TIME,
            confidence.times(confidence.DEAD, confidence.BESIDE_A_DEATH), (claim,), culprits,
            (*death_lines(deaths, scene.framework), note),
        )
    ]  # fmt: skip


def _silent_nodes(scene: Scene, deaths: list[Gone]) -> dict[str, list[int]]:
    """Nodes whose agent was last heard before the first death, each with its ranks that are not known to be gone."""
    since = max((gone.age_s for gone in deaths), default=0.0)
    found: dict[str, list[int]] = {}
    for item in scene.snapshot.unread:
        ranks = [rank for rank in item.ranks if rank not in scene.gone_ranks]
        if item.silent_s is not None and ranks and item.silent_s >= since - SEEN_LATE_S:
            found[item.node] = sorted({*found.get(item.node, []), *ranks})
    return found


def _named(silent: dict[str, list[int]], deaths: list[Gone]) -> set[int]:
    """The silent ranks that an error names, by rank or by host; all of them if they are of one node."""
    texts = [gone.exception for gone in deaths]
    failed = {
        int(n) for text in texts for said in _FAILED_RANKS.findall(text) for n in re.findall(r"\d+", said)
    }
    everyone = {rank for ranks in silent.values() for rank in ranks}
    if failed & everyone:
        return failed & everyone
    hosts = [
        node
        for node in silent
        if any(re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-]|\.\w)", text) for text in texts)
    ]
    if len(silent) == 1 or hosts:
        return {rank for node in hosts or silent for rank in silent[node]}
    return set()


def oldest_consequence(scene: Scene) -> list[Finding]:
    """Only consequences are known, of whom nobody is known: say what was raised first, and that it is not the cause."""
    deaths = deaths_of(scene)
    if not deaths:
        return []
    oldest = max(gone.age_s for gone in deaths)
    first = [gone for gone in deaths if gone.age_s >= oldest - 1e-9]
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, None, Proof.TIME,
            confidence.times(confidence.DEAD, confidence.BESIDE_A_DEATH),
            (OldestDeaths(death_deeds(first, scene.framework)),), (), death_lines(deaths, scene.framework),
        )
    ]  # fmt: skip
