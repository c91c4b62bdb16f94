"""The vocabulary: what is seen of a job, and what is said about it.

Rooms: tables (what a table is), members (who is judged), sightings (what a process looks like), efforts (what its
threads did since), comms (what members do with each other), homes (whose code a file is), snapshot (all a judgement may
look at), verdict (what is said), words (how things are called). All of it is imported from here;
deeds and claims, what is said as values, from their rooms.
Never here: I/O, protobuf, dictionaries that travel, rules.
"""

from ddetect.model.comms import (
    CallSpec,
    Comms,
    Group,
    OpenP2P,
    Ops,
    OpState,
    P2PKind,
    Progress,
)
from ddetect.model.efforts import Efforts
from ddetect.model.homes import CodeHomes
from ddetect.model.members import (
    Beats,
    Phase,
    Rank,
    Role,
    Roster,
    Unread,
)
from ddetect.model.places import Process, Where
from ddetect.model.sightings import (
    DEVICE_LIBRARY,
    UNSEEN_ERROR,
    Departure,
    Frame,
    Gone,
    LastCall,
    Raised,
    Sample,
    Sighting,
    Thread,
)
from ddetect.model.snapshot import (
    Limit,
    Look,
    Settings,
    Snapshot,
)
from ddetect.model.tables import (
    UNKNOWN,
    Bools,
    Floats,
    Ints,
    Table,
    lane_of,
    member_keys,
    rank_of,
    ranks_of,
)
from ddetect.model.verdict import (
    Cause,
    Closed,
    Culprit,
    Incident,
    Judgement,
    Open,
    Proof,
    Stage,
    Status,
    Verdict,
    Waiting,
)
from ddetect.model.words import Names, Words

__all__ = [
    "Beats",
    "Bools",
    "CallSpec",
    "Cause",
    "Closed",
    "CodeHomes",
    "Comms",
    "Culprit",
    "DEVICE_LIBRARY",
    "Departure",
    "Efforts",
    "Floats",
    "Frame",
    "Gone",
    "LastCall",
    "Group",
    "Incident",
    "Ints",
    "Judgement",
    "Limit",
    "Look",
    "Names",
    "Open",
    "OpState",
    "OpenP2P",
    "Ops",
    "P2PKind",
    "Phase",
    "Process",
    "Progress",
    "Proof",
    "Raised",
    "Rank",
    "Role",
    "Roster",
    "Sample",
    "Settings",
    "Sighting",
    "Snapshot",
    "Stage",
    "Status",
    "Table",
    "Thread",
    "UNKNOWN",
    "UNSEEN_ERROR",
    "Unread",
    "Verdict",
    "Waiting",
    "Where",
    "Words",
    "lane_of",
    "member_keys",
    "rank_of",
    "ranks_of",
]
