"""What a scenario is: a program, what a run of it may vary, and the truth about it.

Enters: nothing but a program's own text, searched for `# <- stuck here`. Leaves: `Scenario` and `Params`, and who is
struck by what. Never here: a scenario (catalogue, catalogue_tensorflow), how a job is started (starting).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddetect.model import Cause, Proof, Status

FOLDER = Path(__file__).parent
MARKER = "# <- stuck here"
TENSORFLOW_FOLDER = FOLDER / "tf"  # not "tensorflow": the programs beside it would import that folder
_TENSORFLOW_PREFIX = "tf_"


@dataclass(frozen=True, slots=True)
class Params:
    """What a run may vary: the rank that is struck, the step at which it is, and the shape of the job."""

    rank: int = 2
    world_size: int = 4
    at: int = 40
    step_ms: int = 50
    extra: tuple[str, ...] = ()  # options of one program, passed on as they are


def struck(params: Params) -> tuple[int, ...]:
    return (params.rank,)


def struck_and_next(params: Params) -> tuple[int, ...]:
    return tuple(sorted({params.rank, (params.rank + 1) % params.world_size}))


def next_(params: Params) -> tuple[int, ...]:
    return ((params.rank + 1) % params.world_size,)


def first(params: Params) -> tuple[int, ...]:
    return (0,)


def follower(params: Params) -> tuple[int, ...]:
    """The struck one, or the second where that would be the first: another program strikes that one."""
    return (params.rank or 1,)


def lane(params: Params) -> int:
    """The replica that is struck, of a job in one process."""
    return params.rank


def minority(params: Params) -> tuple[int, ...]:
    """Of two ranks that disagree neither is the minority: both are named."""
    return (0, 1) if params.world_size == 2 else (params.rank,)


def nobody(params: Params) -> tuple[int, ...]:
    """A healthy job; or one that is stuck below Python, where no rank is told from the others."""
    return ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A program and its truth. `function` is where the struck process is; its lines carry the marker."""

    name: str
    status: Status
    cause: Cause | None
    proof: Proof
    function: str | None = None
    culprits: Callable[[Params], tuple[int, ...]] = struck
    role: str | None = None  # of the process at fault, when it is not the rank process itself
    index: Callable[[Params], int] | None = None  # of the loader worker at fault
    torchrun: tuple[str, ...] = ()  # options of torchrun's own
    earlier: tuple[
        tuple[Cause, Callable[[Params], tuple[int, ...]]], ...
    ] = ()  # alarms of attempts before the last
    starts_itself: bool = False  # plays its own launcher: no torchrun
    own_network: bool = False
    framework: str = "torch"
    replicas: bool = False  # one process: `world_size` counts its replicas, and who is struck is one of them
    chief: bool = False  # the first task is a chief
    absent: bool = False  # the struck task is never started
    lane: Callable[[Params], int] | None = None  # the replica at fault, where it can be told
    left_open: Callable[[Params], tuple[int, ...]] | None = (
        None  # of `undecided`: who must be among those it may be
    )
    may_say: tuple[Cause, ...] = ()  # of a job that is well: what may be said of it all the same
    min_world: int = 2  # ranks that it takes; any rank may be struck, and a larger job changes nothing
    pause_s: float = (
        0.0  # it stands so long by itself before it is struck, at the same place: that is usual then
    )
    before_first_step: bool = False  # there is no progress before it: patience for start-up applies
    off_main: bool = False  # what trains, or what is stuck, is another thread than the main one
    or_stopped: bool = False  # its framework may end the job of the same cause before anybody speaks
    every_time: bool = False  # `make test` runs it live; the others run with DDETECT_ALL_SCENARIOS=1

    @property
    def statuses(self) -> frozenset[str]:
        """What the status may be."""
        return frozenset({self.status.value, *([Status.STOPPED.value] if self.or_stopped else [])})

    @property
    def incidents(self) -> int:
        """How many alarms are to come; the truth is that of the last."""
        return len(self.earlier) + 1

    @property
    def path(self) -> Path:
        """The program."""
        if self.framework == "tensorflow":
            return TENSORFLOW_FOLDER / f"{self.name.removeprefix(_TENSORFLOW_PREFIX)}.py"
        return FOLDER / f"{self.name}.py"

    def ranks(self, params: Params) -> int:
        """How many ranks the job has: replicas in one process are lanes of one."""
        return 1 if self.replicas else params.world_size

    @property
    def lines(self) -> frozenset[int]:
        """The lines at which the struck process may be seen."""
        text = self.path.read_text().splitlines()
        return frozenset(number for number, line in enumerate(text, 1) if line.rstrip().endswith(MARKER))
