"""Everything that a judgement may look at. Enters: nothing. Leaves: `Look`, one instant; `Snapshot`, all there is.

Never here: judging; what is said about it (verdict.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ddetect.model.comms import Comms
from ddetect.model.efforts import Efforts
from ddetect.model.homes import CodeHomes
from ddetect.model.members import Beats, Phase, Roster, Unread
from ddetect.model.sightings import Gone, Sample
from ddetect.model.tables import UNKNOWN, part, values
from ddetect.model.verdict import Stage


@dataclass(frozen=True, slots=True)
class Limit:
    """A learned gap: how long the job has stood in this phase, and at this place, while it was well."""

    phase: Phase
    longest_s: float
    seen: int
    place: str = ""  # the functions of the members that were waited for; empty where nobody looked


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may change about judging. Travels in the snapshot, so a replay judges alike."""

    patience_s: float = 300.0
    floor_s: float = 2.0
    startup_s: float = 30.0  # before the first steps: suspicion after this long without motion
    samples: int = 3
    sample_gap_s: float = 0.35
    signatures: str = ""  # the text of a user's own stack patterns
    startup_patience_s: float = 1800.0  # before the first steps: alarm after this long while somebody runs
    note_after_s: float = (
        60.0  # a suspicion so old is told to those who want to know of it before it is an alarm
    )


@dataclass(frozen=True, eq=False)
class Look:
    """One node, or all nodes, at one instant: processes, what they do with each other, and what stayed unread."""

    sample: Sample = part(Sample)
    comms: Comms = part(Comms)
    unread: tuple[Unread, ...] = values(Unread)
    homes: CodeHomes = part(CodeHomes)  # where code lives in the interpreters that were looked at
    efforts: Efforts = part(Efforts)  # what threads did since the look before


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything a judgement may look at. Written to disk and read again it gives the same verdict."""

    job: str = ""
    attempt: int = 0
    world_size: int = UNKNOWN  # ranks; a rank may be several members
    framework: str = "torch"
    taken_at_unix_ns: int = 0
    stalled_for_s: float = 0.0
    stage: Stage = Stage.SUSPECTED  # of its incident, when it was written
    phase: Phase = Phase.OTHER  # of those that are waited for
    still_s: float | None = None  # since something of them last worked; None: as long as it stalls
    roster: Roster = part(Roster)
    beats: Beats = part(Beats)
    looks: tuple[Look, ...] = ()  # oldest first
    gone: tuple[Gone, ...] = ()
    limits: tuple[Limit, ...] = ()
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def lanes(self) -> int:
        """How many lanes a rank has at most: one, but where members share a process."""
        tables = (self.roster, self.comms.progress, self.comms.ops, self.comms.p2p)
        return 1 + max((int(table.lane.max()) for table in tables if len(table)), default=0)

    @property
    def members(self) -> int:
        """How many members the job has; of a rank that nobody has heard of it is told as of the largest."""
        heard = len(np.unique(self.roster.rank[self.roster.rank >= 0]))
        known = len(np.unique(self.roster.member[self.roster.member >= 0]))
        if self.lanes == 1:
            return self.world_size
        return known + max(0, self.world_size - heard) * self.lanes

    @property
    def known_members(self) -> int:
        """The same; where nobody told how many there should be, those that are seen."""
        return self.members if self.members > 0 else len(np.unique(self.roster.member))

    @cached_property
    def newest(self) -> Look:
        """The newest look; an empty one where none was taken."""
        return self.looks[-1] if self.looks else Look()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The processes, look by look."""
        return tuple(look.sample for look in self.looks)

    @property
    def comms(self) -> Comms:
        """What members do with each other, as the newest look shows it."""
        return self.newest.comms

    @property
    def homes(self) -> CodeHomes:
        """Where the job's code lives."""
        return self.newest.homes

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What the newest look could not read."""
        return self.newest.unread
