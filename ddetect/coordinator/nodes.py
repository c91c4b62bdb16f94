"""What the coordinator knows of its nodes: who is there, how they are, when each was last heard.

Enters: agents' messages with the time they came. Leaves: a `Pulse`, the few numbers that decide whether the job
moves, and the tables for a snapshot. Pure. Never here: limits, judging, I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ddetect.coordinator.undoable import Undoable
from ddetect.correlate.limits import steps_done
from ddetect.messages import NodeBeat, NodeRoster
from ddetect.model import UNKNOWN, Beats, Phase, Roster, Unread
from ddetect.model.tables import join, keep_rows, older

SILENT_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One agent's last words."""

    roster: NodeRoster | None = None
    coming: NodeRoster | None = None  # told, but its first beat is still on the way
    beats: Beats | None = None
    beats_at: float = -math.inf
    since: float = math.inf  # when the first beat of this attempt came
    heard_at: float = -math.inf
    connected: bool = True
    told_at: float = -math.inf  # when its newest process was first told of
    superseded: frozenset[int] = frozenset()  # ranks of it that another node has told of since

    @property
    def stale(self) -> bool:
        """Whether it had ranks, and others have told of all of them since: it speaks for none."""
        return bool(self.superseded) and self.ranks() <= self.superseded

    def ranks(self) -> set[int]:
        """The ranks that it told of last."""
        roster = self.coming or self.roster
        return set(roster.roster.rank.tolist()) if roster is not None else set()


@dataclass(frozen=True, slots=True)
class Pulse:
    """The job at a glance, as of the newest beats (not extrapolated: silence is not a stall)."""

    alive: int  # rank processes seen alive
    steps: int  # optimizer steps of the rank that has most; without an optimizer, batches and calls stand in
    step_at: float  # when a rank last stepped; -inf if none did
    activity_at: float  # when any counter of any rank last moved
    quiet_rank: int  # the live rank that has been quiet longest,
    quiet_at: float  # and when it last moved
    seen_at: float  # how far our sight reaches: the oldest of the newest beats
    phase: Phase  # what the ranks that are not inside a collective do; PAUSED if somebody stopped them all
    leaving: bool = False  # all of them are on their way out
    exiting: bool = False  # one of them at least leaves its interpreter
    frozen: bool = False  # somebody stopped them all


@dataclass(slots=True)
class Nodes:
    """All nodes of the job. Those that left an elastic job are put aside until they speak again."""

    nodes: Undoable[NodeView] = field(default_factory=Undoable)
    left: Undoable[NodeView] = field(default_factory=Undoable)
    attempt_at: float = -math.inf  # when the newest attempt began

    def begin(self) -> Callable[[], None]:
        """From here on what changes can be taken back, by what is returned."""
        undo = self.nodes.begin(), self.left.begin()
        attempt_at = self.attempt_at

        def take_back() -> None:
            for one in undo:
                one()
            self.attempt_at = attempt_at

        return take_back

    def node(self, name: str) -> NodeView:
        """The node of that name, from its first word on."""
        if name not in self.nodes:
            self.nodes[name] = self.left.pop(name) if name in self.left else NodeView()
        return self.nodes[name]

    def change(self, name: str, **what: Any) -> NodeView:
        """The node, with these fields changed."""
        self.nodes[name] = changed = replace(self.node(name), **what)
        return changed

    def claim(self, name: str, new: NodeRoster, now: float) -> None:
        """New processes on a node: it has these ranks now, whoever had them before."""
        self.change(name, told_at=now, superseded=frozenset())
        ranks = set(new.roster.rank.tolist())
        for other, node in list(self.nodes.items()):
            lost = ranks & node.ranks() - node.superseded if other != name else set()
            if lost:
                self.change(other, superseded=node.superseded | lost)

    def let_go(self, now: float) -> None:
        """Put aside who cannot be heard and has no rank any more: all are held by others, or beyond the new world."""
        absent = [
            name
            for name, node in self.nodes.items()
            if not node.connected or now - node.heard_at > SILENT_AFTER_S
        ]
        world = self.world_size() if absent else UNKNOWN
        for name in absent:
            node = self.nodes[name]
            old = node.told_at < self.attempt_at
            held = node.ranks() - node.superseded
            if old and world > 0:
                held = {rank for rank in held if rank < world}
            if not held and (old or node.superseded):
                self.left[name] = self.nodes.pop(name)

    def take_beat(self, name: str, beat: NodeBeat, now: float) -> None:
        """Keep a beat that fits its roster."""
        node = self.node(name)
        if node.coming is not None and node.coming.version == beat.roster_version:
            node = self.change(name, roster=node.coming, coming=None, since=min(node.since, now))
        if node.roster is None or node.roster.version != beat.roster_version:
            return  # it crossed a roster on the way; the next one is a second away
        if len(beat.beats) == len(node.roster.roster):
            self.change(name, beats=beat.beats, beats_at=now)

    def heard(self) -> list[tuple[NodeRoster, Beats, float]]:
        """Nodes with something to show: roster, beats, and when they came. A rank is only where it was told of last."""
        found = []
        for node in self.nodes.values():
            if node.roster is None or node.beats is None or not len(node.beats) or node.stale:
                continue
            roster, beats = node.roster, node.beats
            if node.superseded:
                roster, beats = _still_held(roster, beats, node.superseded)
            found.append((roster, beats, node.beats_at))
        return found

    def to_ask(self) -> list[str]:
        """Nodes that can answer for some rank."""
        return [name for name, node in self.nodes.items() if node.connected and not node.stale]

    def to_wait_for(self, asked: Iterable[str], now: float) -> frozenset[str]:
        """Those of them that were heard just now: for one that is silent nobody waits, its answer may come late."""
        return frozenset(name for name in asked if now - self.nodes[name].heard_at <= SILENT_AFTER_S)

    def world_size(self) -> int:
        """As the ranks were told, those of the newest attempt if any can be heard; UNKNOWN before any."""
        told = [
            (not node.stale, node.told_at >= self.attempt_at, node.roster.world_size)
            for node in self.nodes.values()
            if node.roster is not None and node.beats is not None and len(node.beats)
        ]
        return max(told, default=(False, False, UNKNOWN))[-1]

    def framework(self) -> str:
        """What the ranks train with, as most nodes say; empty when none does."""
        told = [node.roster.framework for node in self.nodes.values() if node.roster and not node.stale]
        named = [name for name in told if name]
        return max(named, key=named.count, default="")

    def pulse(self, now: float) -> Pulse | None:
        """The job at a glance; None while no agent can be heard that sees a living rank."""
        parts = [part for part in self.heard() if now - part[2] <= SILENT_AFTER_S]
        parts = [part for part in parts if part[1].state.any()]
        if not parts:
            return None
        rank = np.concatenate([roster.roster.rank for roster, _, _ in parts])
        phase = np.concatenate([beats.phase for _, beats, _ in parts])
        state = np.concatenate([beats.state for _, beats, _ in parts])
        alive = state > 0
        stepped_at = np.concatenate([at - beats.step_age_s for _, beats, at in parts])
        active_at = np.concatenate([at - beats.activity_age_s for _, beats, at in parts])
        # Who never moved is as old as our sight of it: a rank without a page, or one that has just begun.
        active_at = np.maximum(active_at, stepped_at)
        active_at[np.isneginf(active_at)] = min(node.since for node in self.nodes.values())
        # A rank without a page has no counters: it is not quiet, it is unseen. Unless nobody has a page.
        paged = np.concatenate([beats.has_page > 0 for _, beats, _ in parts])
        telling = alive & (paged if paged[alive].any() else True)
        quiet = int(np.argmin(np.where(telling, active_at, math.inf)))
        return Pulse(
            alive=int(np.count_nonzero(alive)),
            steps=max(steps_done(beats) for _, beats, _ in parts),
            step_at=float(stepped_at.max()),
            activity_at=float(active_at.max()),
            quiet_rank=int(rank[quiet]),
            quiet_at=float(active_at[quiet]),
            seen_at=min(at for _, _, at in parts),
            phase=Phase.PAUSED if (state[alive] == ord("T")).all() else _telling_phase(phase[alive]),
            frozen=bool((state[alive] == ord("T")).all()),
            leaving=bool(np.isin(phase[alive], (Phase.LEAVING, Phase.EXITING)).all()),
            exiting=bool((phase[alive] == Phase.EXITING).any()),
        )

    def roster(self) -> Roster:
        """Everybody, node after node."""
        return join(Roster, [roster.roster for roster, _, _ in self.heard()])

    def beats(self, now: float) -> Beats:
        """Everybody's beats, their ages as of now; rows as in `roster`."""
        return join(Beats, [_as_of(beats, at, now) for _, beats, at in self.heard()])

    def active_at(self, ranks: Iterable[int]) -> float:
        """When one of these ranks last moved a counter, as far as was heard."""
        wanted = np.fromiter(ranks, np.int64)
        return max(
            (
                at - float(ages.min())
                for roster, beats, at in self.heard()
                if len(
                    ages := beats.activity_age_s[np.isin(roster.roster.rank, wanted) & (beats.has_page > 0)]
                )
            ),
            default=-math.inf,
        )

    def any_page(self) -> bool:
        """Whether any rank counts what it does: without a probe in any of them only looks tell."""
        return any(bool(beats.has_page.any()) for _, beats, _ in self.heard())

    def pids_on(self, name: str, pids: Iterable[int]) -> tuple[int, ...]:
        """Those of the pids that are rank processes of this node: pids repeat across hosts."""
        roster = self.nodes[name].roster
        return tuple(pid for pid in pids if roster is not None and pid in roster.roster.pid)

    def unheard(self, now: float, *, hung_up: bool = False) -> tuple[Unread, ...]:
        """Ranks whose agent is silent, or (`hung_up`) has left us just now: they may be well, we cannot know."""
        found = []
        for name, node in self.nodes.items():
            silent_s = now - node.heard_at
            silent = silent_s > SILENT_AFTER_S
            if node.roster is None or not (silent or (hung_up and not node.connected)):
                continue
            told = dict.fromkeys(node.roster.roster.rank.tolist())
            ranks = tuple(rank for rank in told if rank not in node.superseded)
            if ranks:
                how = f"is silent for {silent_s:.0f} s" if silent else "has left"
                found.append(Unread(ranks, f"the agent on {name} {how}", name, silent_s))
        return tuple(found)


def _still_held(told: NodeRoster, beats: Beats, superseded: frozenset[int]) -> tuple[NodeRoster, Beats]:
    """The rows of ranks that nobody else has told of. How many ranks the node should have now is not known."""
    keep = ~np.isin(told.roster.rank, list(superseded))
    kept = keep_rows(told.roster, keep)
    roster = replace(kept, local_world=np.full(len(kept), UNKNOWN))
    return replace(told, roster=roster), keep_rows(beats, keep)


def _as_of(beats: Beats, at: float, now: float) -> Beats:
    """Beats with their ages as of now; of a node that fell silent the phase is not known any more."""
    beats = older(beats, max(0.0, now - at))
    if now - at <= SILENT_AFTER_S:
        return beats
    return replace(beats, phase=np.full(len(beats), UNKNOWN))


def _telling_phase(phases: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Phase:
    """The phase of those who are waited for: whoever says more than 'in a collective' or 'in user code'."""
    present = set(np.unique(phases).tolist())
    for phase in (Phase.PAUSED, Phase.DATA, Phase.STARTING, Phase.JOINING, Phase.LEAVING, Phase.EXITING):
        if phase in present:
            return phase
    return Phase.OTHER
