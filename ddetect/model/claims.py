"""What a rule found out, as a value: who is named, and all that a sentence about it needs.

Members are numbers (rank and lane in one); deaths and nodes are about ranks, which are whole processes.
Enters: nothing. Leaves: frozen values. Never here: English (ddetect.report makes it), who is right (ddetect.correlate).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ddetect.model.deeds import Deed, Members, OpLabel, Part, Side, StuckIn, Through
from ddetect.model.places import Process, Where

# ---------------------------------------------------------------- what is found; `named`: the members at fault


@dataclass(frozen=True, slots=True)
class Each:
    """These members do this, each on its own."""

    deeds: tuple[tuple[int, Deed], ...]

    @property
    def named(self) -> Members:
        """All of them."""
        return tuple(member for member, _ in self.deeds)


@dataclass(frozen=True, slots=True)
class Disagree:
    """Callers of one slot made different calls; without `op` their stacks say so, of the group of all."""

    parts: tuple[Part, ...]
    sides: tuple[Side, ...]  # as they are told
    named: Members
    op: OpLabel | None = None


@dataclass(frozen=True, slots=True)
class Circle:
    """They wait for each other."""

    named: Members
    through: Through
    waits: tuple[StuckIn, ...]


@dataclass(frozen=True, slots=True)
class OwnGroups:
    """Some are in groups of their own and do not come out; the rest waits for them."""

    inner: Side
    rest: Side

    @property
    def named(self) -> Members:
        """Those in groups of their own."""
        return self.inner.members


@dataclass(frozen=True, slots=True)
class NobodyLeaves:
    """Everyone is in an operation and it does not end; `side` where only stacks tell which."""

    waiters: Members
    op: OpLabel | None = None
    partners: Members = ()  # of a send or receive that has met its answer
    some_left: bool = False
    side: Side | None = None
    named: Members = ()


@dataclass(frozen=True, slots=True)
class NobodyMeets:
    """Those that try to join do not find each other; `named` where all others have joined."""

    named: Members = ()


@dataclass(frozen=True, slots=True)
class DeviceBehind:
    """Everybody has enqueued the operation; these devices have not begun it, or not finished."""

    named: Members
    begun: bool
    op: OpLabel


@dataclass(frozen=True, slots=True)
class RaisedFirst:
    """Ranks raised this; `victims` died of it before they were gone."""

    named: Members
    exception: str
    where: Where | None = None
    others: bool = False  # some of them raised something else
    victims: Members = ()


@dataclass(frozen=True, slots=True)
class CallsRefused:
    """Members made calls that do not fit together, each side at its line, and all died of what their framework said."""

    sides: tuple[Side, ...]
    named: Members
    said: str


@dataclass(frozen=True, slots=True)
class ExitedWith:
    """Ranks exited with this code, and raised nothing."""

    named: Members
    code: int
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Aborted:
    """Ranks were aborted inside an operation, because of what a peer sent: members made different calls.

    `sides`, and the parts in which they differ, where that is told; else nobody is named.
    """

    victims: Members
    op: OpLabel
    parts: tuple[Part, ...] = ()
    sides: tuple[Side, ...] = ()
    named: Members = ()


@dataclass(frozen=True, slots=True)
class Vanished:
    """Ranks are gone without a word; `each`: the signal was meant for each of them. 0: nobody saw what ended them."""

    named: Members
    pid: int
    signal: int
    where: Where | None = None
    each: bool = False


@dataclass(frozen=True, slots=True)
class WorkersKilled:
    """Loader workers were killed; each with its rank."""

    workers: tuple[tuple[int, Process], ...]

    @property
    def named(self) -> Members:
        """The ranks that miss them."""
        return tuple(rank for rank, _ in self.workers)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Ranks left early, and their peers died of the closed connection."""

    named: Members
    victims: Members


@dataclass(frozen=True, slots=True)
class OnPurpose:
    """Somebody ended the job: these ranks by an interrupt, or all of them by SIGTERM."""

    interrupted: Members = ()
    named: Members = ()


@dataclass(frozen=True, slots=True)
class FellSilent:
    """Nodes were lost from sight, and ranks elsewhere died: of closed connections, or waiting."""

    nodes: tuple[tuple[str, Members], ...]
    victims: Members
    closed: bool
    named: Members = ()  # nobody: where it began is not known


@dataclass(frozen=True, slots=True)
class OldestDeaths:
    """These died first, each of something that follows from a fault that was not seen."""

    deeds: tuple[tuple[int, Deed], ...]
    named: Members = ()


# ---------------------------------------------------------------- what is not known, and what is well


@dataclass(frozen=True, slots=True)
class MissingUnknown:
    """Somebody waits, and who is missing is not known."""

    waits: tuple[StuckIn, ...]
    unread: Members = ()
    may_wait: Members = ()
    recorders_unread: bool = False
    unsure: Members = ()  # may be in it, or in another operation
    named: Members = ()


@dataclass(frozen=True, slots=True)
class CallUnknown:
    """They are inside calls, and no recorder tells which."""

    members: Members
    named: Members = ()


@dataclass(frozen=True, slots=True)
class MayWaitForDevice:
    """They may wait for their devices, and no recorder tells in which operation."""

    members: Members
    named: Members = ()


@dataclass(frozen=True, slots=True)
class StepUntold:
    """These are inside a compiled step that does not end, at this line, and nobody can tell what it waits for."""

    members: Members
    where: Where | None = None
    replicas: bool = False  # one process: its replicas cannot be told apart either
    named: Members = ()


class State(Enum):
    """What there is to say of a job in which nobody is named."""

    NO_PROCESS = auto()
    NO_LOOK = auto()
    UNEXPLAINED = auto()
    ENDED = auto()
    OVER = auto()  # every rank has left its group
    MOVES_WITHOUT_STEPS = auto()
    MOVES = auto()


@dataclass(frozen=True, slots=True)
class JobIs:
    """The job as a whole."""

    state: State
    since_s: float = 0.0
    named: Members = ()


# ---------------------------------------------------------------- what is added to it


@dataclass(frozen=True, slots=True)
class Held:
    """These wait because of the members that are named; `for_one`: because of a single one."""

    waits: tuple[StuckIn, ...]
    for_one: bool


@dataclass(frozen=True, slots=True)
class AlsoDied:
    """A living member is named, and these died: that is why the job has stopped."""

    deeds: tuple[tuple[int, Deed], ...]


@dataclass(frozen=True, slots=True)
class RanksUnread:
    """Ranks that could not be read, of so many."""

    ranks: Members
    world: int


Claim = (
    Each | Disagree | Circle | OwnGroups | NobodyLeaves | NobodyMeets | DeviceBehind | RaisedFirst | CallsRefused
    | ExitedWith | Aborted | Vanished
    | WorkersKilled | LeftBehind | OnPurpose | FellSilent | OldestDeaths | MissingUnknown | CallUnknown
    | MayWaitForDevice | StepUntold | JobIs
)  # fmt: skip
Addition = Held | AlsoDied | RanksUnread
