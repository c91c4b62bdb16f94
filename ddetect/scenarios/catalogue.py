"""The scenarios and the truth about each: what happened, to whom, and where.

Enters: nothing but the programs' own text, searched for `# <- stuck here`. Leaves: `SCENARIOS`, and the command that
runs one. Never here: torch, or a guess: each truth was seen with py-spy on torch 2.13 and gloo before it was written.

gloo cannot be made to hang by everything. A message longer than its receiver's buffer aborts the receiver (SIGABRT),
a shorter one passes in silence, another dtype of the same width passes too; a process that exits closes its
connections, and its peers raise within 50 ms. Each program says how it avoids that where it has to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddetect.model import Cause, Proof, Status

FOLDER = Path(__file__).parent
MARKER = "# <- stuck here"


@dataclass(frozen=True, slots=True)
class Params:
    """What a run may vary: the rank that is struck, the step at which it is, and the shape of the job."""

    rank: int = 2
    world_size: int = 4
    at: int = 40
    step_ms: int = 50
    extra: tuple[str, ...] = ()  # options of one program, passed on as they are


def _struck(params: Params) -> tuple[int, ...]:
    return (params.rank,)


def _struck_and_next(params: Params) -> tuple[int, ...]:
    return tuple(sorted({params.rank, (params.rank + 1) % params.world_size}))


def _minority(params: Params) -> tuple[int, ...]:
    """Of two ranks that disagree neither is the minority: both are named."""
    return (0, 1) if params.world_size == 2 else (params.rank,)


def _nobody(params: Params) -> tuple[int, ...]:
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
    culprits: Callable[[Params], tuple[int, ...]] = _struck
    role: str | None = None  # of the process at fault, when it is not the rank process itself
    index: Callable[[Params], int] | None = None  # of the loader worker at fault
    starts_itself: bool = False  # plays its own launcher: no torchrun
    own_network: bool = False
    before_first_step: bool = False  # there is no progress before it: patience for start-up applies

    @property
    def path(self) -> Path:
        """The program."""
        return FOLDER / f"{self.name}.py"

    @property
    def lines(self) -> frozenset[int]:
        """The lines at which the struck process may be seen."""
        text = self.path.read_text().splitlines()
        return frozenset(number for number, line in enumerate(text, 1) if line.rstrip().endswith(MARKER))


def _worker_of_batch(params: Params) -> int:
    """Two loader workers take batches in turn."""
    return params.at % 2


_HANG, _STOPPED = Status.HANG, Status.STOPPED
_STRUCTURAL, _TIME = Proof.STRUCTURAL, Proof.TIME

_ALL = (
    Scenario(
        "data_worker_stuck", _HANG, Cause.DATA_LOADING, _TIME, "read_shard",
        role="loader_worker", index=_worker_of_batch,
    ),
    Scenario("data_in_process", _HANG, Cause.DATA_LOADING, _TIME, "decode_image"),
    Scenario(
        "data_worker_dead", _STOPPED, Cause.KILLED_BY_SIGNAL, _STRUCTURAL,
        role="loader_worker", index=_worker_of_batch,
    ),
    Scenario("user_sleep", _HANG, Cause.USER_CODE, _TIME, "ask_feature_store"),
    Scenario("user_spin", _HANG, Cause.USER_CODE, _TIME, "find_free_slot"),
    Scenario("debugger", _HANG, Cause.USER_CODE, _STRUCTURAL, "inspect_loss"),
    Scenario("python_lock", _HANG, Cause.PYTHON_LOCK, _TIME, "log_metrics"),
    Scenario("gil_held", _HANG, Cause.GIL_HELD, _TIME, "tokenize"),
    Scenario("sigstop", _HANG, Cause.PROCESS_STOPPED, _STRUCTURAL, "suspend"),
    Scenario("file_flock", _HANG, Cause.FILE_IO, _TIME, "open_cache"),
    Scenario("file_fifo", _HANG, Cause.FILE_IO, _TIME, "read_manifest"),
    Scenario(
        "mismatch_op", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_metrics", culprits=_minority
    ),
    Scenario(
        "mismatch_shape", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "average_scores", culprits=_minority
    ),
    Scenario(
        "mismatch_dtype", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "reduce_gradients", culprits=_minority
    ),
    Scenario(
        "mismatch_root", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_weights", culprits=_minority
    ),
    Scenario(
        "group_order", _HANG, Cause.GROUP_ORDER_DEADLOCK, _STRUCTURAL, "reduce_in", culprits=_struck_and_next
    ),
    Scenario("p2p_cycle", _HANG, Cause.P2P_DEADLOCK, _STRUCTURAL, "exchange", culprits=_struck_and_next),
    Scenario("left_early", _HANG, Cause.LEFT_EARLY, _STRUCTURAL, "export_results"),
    Scenario("left_in_exit", _HANG, Cause.LEFT_EARLY, _STRUCTURAL, "upload_logs"),
    Scenario("never_joined", _HANG, Cause.RENDEZVOUS, _TIME, "wait_for_license", before_first_step=True),
    Scenario("never_started", _HANG, Cause.RENDEZVOUS, _TIME, starts_itself=True, before_first_step=True),
    Scenario("network_down", _HANG, Cause.ALL_ENTERED_NONE_LEFT, _TIME, culprits=_nobody, own_network=True),
    Scenario("rank_killed", _STOPPED, Cause.KILLED_BY_SIGNAL, _STRUCTURAL),
    Scenario("rank_raises", _STOPPED, Cause.PYTHON_EXCEPTION, _STRUCTURAL, "parse_record"),
    Scenario("healthy", Status.HEALTHY, None, _TIME, culprits=_nobody),
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}


def command(scenario: Scenario, params: Params) -> list[str]:
    """The job's command line: torchrun, the program, and what it is to do."""
    options = [
        str(scenario.path), "--rank", str(params.rank), "--at", str(params.at), "--step-ms", str(params.step_ms),
        *params.extra,
    ]  # fmt: skip
    if scenario.starts_itself:
        return [sys.executable, *options, "--world-size", str(params.world_size)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(params.world_size)]
    if scenario.own_network:
        # Not --standalone: its rendezvous keeps a connection alive, and would end the job before anyone can look.
        alone = ["--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", "29500"]
        return [sys.executable, str(FOLDER / "in_own_network.py"), *torchrun, *alone, *options]
    return [*torchrun, "--standalone", *options]
