"""The scenarios and the truth about each: what happened, to whom, and where.

Enters: nothing. Leaves: `TORCH`, whose truths are here, and with those of `catalogue_tensorflow` all `SCENARIOS`.
Never here: torch, or a guess: tests/live compares each truth with a live run (torch 2.13, gloo).

Where a truth could be debated it is what an engineer would want to hear at three in the morning, and says so.

gloo cannot be made to hang by everything. A message longer than its receiver's buffer aborts the receiver (SIGABRT),
a shorter one passes in silence, another dtype of the same width passes too; a process that exits closes its
connections, and its peers raise within 50 ms. Each program says how it avoids that where it has to.
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.model import UNKNOWN, Cause, Proof, Status
from ddetect.scenarios.catalogue_tensorflow import TENSORFLOW
from ddetect.scenarios.scenario import (
    FOLDER,
    Params,
    Scenario,
    first,
    minority,
    next_,
    nobody,
    struck_and_next,
)
from ddetect.scenarios.starting import command

__all__ = ["FOLDER", "SCENARIOS", "TENSORFLOW", "TORCH", "Params", "Scenario", "command"]


def _worker_of_batch(params: Params) -> int:
    """Two loader workers take batches in turn."""
    return params.at % 2


def _first_worker(params: Params) -> int:
    return 0


def _no_index(params: Params) -> int:
    """Only loader workers are numbered."""
    return UNKNOWN


_HANG, _STOPPED = Status.HANG, Status.STOPPED
_STRUCTURAL, _TIME = Proof.STRUCTURAL, Proof.TIME

_EVERY_TIME = tuple(
    replace(scenario, every_time=True)
    for scenario in (
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
            "mismatch_op", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_metrics", culprits=minority
        ),
        Scenario(
            "mismatch_shape", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "average_scores", culprits=minority
        ),
        Scenario(
            "mismatch_dtype", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "reduce_gradients", culprits=minority
        ),
        Scenario(
            "mismatch_root", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_weights", culprits=minority
        ),
        Scenario(
            "group_order", _HANG, Cause.GROUP_ORDER_DEADLOCK, _STRUCTURAL, "reduce_in", culprits=struck_and_next
        ),
        Scenario("p2p_cycle", _HANG, Cause.P2P_DEADLOCK, _STRUCTURAL, "exchange", culprits=struck_and_next),
        Scenario("left_early", _HANG, Cause.LEFT_EARLY, _STRUCTURAL, "export_results"),
        Scenario("left_in_exit", _HANG, Cause.LEFT_EARLY, _STRUCTURAL, "upload_logs"),
        Scenario("never_joined", _HANG, Cause.RENDEZVOUS, _TIME, "wait_for_license", before_first_step=True),
        Scenario("never_started", _HANG, Cause.RENDEZVOUS, _TIME, starts_itself=True, before_first_step=True),
        Scenario("network_down", _HANG, Cause.ALL_ENTERED_NONE_LEFT, _TIME, culprits=nobody, own_network=True),
        # Without its line: torchrun may end the struck rank before it raises, and then nobody knows that.
        Scenario("mismatch_abort", _STOPPED, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, culprits=minority),
        Scenario("rank_killed", _STOPPED, Cause.KILLED_BY_SIGNAL, _STRUCTURAL),
        Scenario("rank_raises", _STOPPED, Cause.PYTHON_EXCEPTION, _STRUCTURAL, "parse_record"),
        Scenario("compile_one_rank", _HANG, Cause.BUILDING, _TIME, "lower_graph"),
    )
)  # fmt: skip

_OFF_MAIN = tuple(
    replace(scenario, off_main=True)
    for scenario in (
        # training in a thread, the main thread in an event loop
        Scenario("thread_loop_sleep", _HANG, Cause.USER_CODE, _TIME, "ask_feature_store", every_time=True),
        Scenario(
            "thread_loop_data", _HANG, Cause.DATA_LOADING, _TIME, "read_shard",
            role="loader_worker", index=_worker_of_batch,
        ),
        Scenario(
            "thread_loop_collective", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "save_checkpoint",
            culprits=minority,
        ),
        # through asyncio's executor
        Scenario("executor_sleep", _HANG, Cause.USER_CODE, _TIME, "score_samples"),
        Scenario(
            "executor_data", _HANG, Cause.DATA_LOADING, _TIME, "read_shard",
            role="loader_worker", index=_worker_of_batch, every_time=True,
        ),
        Scenario(
            "executor_collective", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "save_sharded", culprits=minority
        ),
        # the main thread joins it
        Scenario("joined_sleep", _HANG, Cause.USER_CODE, _TIME, "fetch_rewards"),
        Scenario(
            "joined_data", _HANG, Cause.DATA_LOADING, _TIME, "read_shard",
            role="loader_worker", index=_worker_of_batch,
        ),
        Scenario(
            "joined_collective", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_metrics", culprits=minority,
            every_time=True,
        ),
        # All main threads wait for a future: what is to be heard is what one rank's other thread waits for.
        Scenario("async_save_lock", _HANG, Cause.FILE_IO, _TIME, "write_shard"),
        # Here another process of that rank does; what is to be heard is which rank waits for it, and where.
        # Its first save waits until the process that saves has started, and imported torch.
        Scenario("async_save_hang", _HANG, Cause.PYTHON_LOCK, _TIME, "wait_for_save", pause_s=10.0),
        *(
            Scenario(name, Status.HEALTHY, None, _TIME, culprits=nobody)
            for name in ("healthy_executor", "healthy_joined", "healthy_thread_loop")
        ),
    )
)  # fmt: skip

_ALL = (
    *_EVERY_TIME,
    # a rank does not come, and how the others wait for it
    Scenario("root_missing", _HANG, Cause.USER_CODE, _TIME, "prepare_weights"),
    Scenario("leaf_missing", _HANG, Cause.USER_CODE, _TIME, "score_samples", min_world=3),
    Scenario("pipeline_stage", _HANG, Cause.USER_CODE, _TIME, "run_layers"),
    Scenario("irecv_early", _HANG, Cause.USER_CODE, _TIME, "compute_halo"),
    Scenario("mesh_2d", _HANG, Cause.USER_CODE, _TIME, "attention", min_world=4),
    Scenario("object_pickle", _HANG, Cause.USER_CODE, _TIME, "__getstate__"),
    Scenario("async_handle", _HANG, Cause.USER_CODE, _TIME, "compress_gradients"),
    Scenario("fsdp2", _HANG, Cause.USER_CODE, _TIME, "sample_prompts"),
    Scenario("chain_of_groups", _HANG, Cause.USER_CODE, _TIME, "rebalance_experts", min_world=4),
    Scenario("monitored_barrier", _HANG, Cause.USER_CODE, _TIME, "write_summary"),
    Scenario("group_not_made", _HANG, Cause.USER_CODE, _TIME, "plan_experts"),
    Scenario(
        "two_culprits", _HANG, Cause.USER_CODE, _TIME, "ask_feature_store", culprits=struck_and_next, min_world=3
    ),
    Scenario("join_hang", _HANG, Cause.USER_CODE, _TIME, "augment_batch"),
    Scenario("network_cut", _HANG, Cause.ALL_ENTERED_NONE_LEFT, _TIME, culprits=nobody, starts_itself=True),
    # The first attempt ends with an exception: an incident of its own.
    Scenario(
        "elastic_restart", _HANG, Cause.USER_CODE, _TIME, "warm_cache", torchrun=("--max-restarts", "1"),
        earlier=((Cause.PYTHON_EXCEPTION, next_),),
    ),
    # The ranks of the truth are those after the change; before it there is one more, in front.
    Scenario(
        "membership_change", _HANG, Cause.USER_CODE, _TIME, "read_index", starts_itself=True,
        earlier=((Cause.KILLED_BY_SIGNAL, first),),
    ),
    # what it does instead
    Scenario("first_step", _HANG, Cause.USER_CODE, _TIME, "load_tokenizer", before_first_step=True),
    Scenario("input_left", _HANG, Cause.USER_CODE, _TIME, "confirm_overwrite"),
    Scenario("subprocess_run", _HANG, Cause.USER_CODE, _TIME, "sync_bucket"),
    Scenario("http_call", _HANG, Cause.USER_CODE, _TIME, "fetch_config"),
    Scenario("full_pipe", _HANG, Cause.USER_CODE, _TIME, "print_table"),
    # Not where the rank waits for its pool, but where the child is that has the task.
    Scenario(
        "nested_pool", _HANG, Cause.USER_CODE, _TIME, "tokenize", role="child_process", index=_no_index
    ),
    Scenario("checkpoint_barrier", _HANG, Cause.FILE_IO, _TIME, "save_checkpoint"),
    Scenario("import_lock", _HANG, Cause.PYTHON_LOCK, _TIME, "load_plugin"),
    Scenario("logging_lock", _HANG, Cause.PYTHON_LOCK, _TIME, "log_loss"),
    Scenario("prefetch_died", _HANG, Cause.PYTHON_LOCK, _TIME, "next_batch"),
    Scenario("process_lock", _HANG, Cause.PYTHON_LOCK, _TIME, "use_tokenizer"),
    # The exception is in flight and nobody can see it; the line at which it is held up leads to it.
    Scenario("blocked_in_finally", _HANG, Cause.PYTHON_LOCK, _TIME, "stop_prefetching"),
    Scenario("stopped_and_resumed", _HANG, Cause.PROCESS_STOPPED, _STRUCTURAL, "suspend"),
    # its data
    Scenario(
        "data_fork_lock", _HANG, Cause.DATA_LOADING, _TIME, "look_up",
        role="loader_worker", index=_worker_of_batch,
    ),
    Scenario(
        "data_worker_stopped", _HANG, Cause.PROCESS_STOPPED, _STRUCTURAL, "suspend",
        role="loader_worker", index=_worker_of_batch,
    ),
    # A process in state D is read without stopping it, which may fail: the truth does not insist on a line.
    Scenario(
        "data_worker_disk", _HANG, Cause.FILE_IO, _TIME, role="loader_worker", index=_worker_of_batch,
    ),
    Scenario(
        "data_persistent", _HANG, Cause.DATA_LOADING, _TIME, "read_shard",
        role="loader_worker", index=_first_worker,
    ),
    Scenario(
        "data_open_pipe", _HANG, Cause.FILE_IO, _TIME, "open_shard",
        role="loader_worker", index=_worker_of_batch,
    ),
    Scenario(
        "data_socket", _HANG, Cause.DATA_LOADING, _TIME, "fetch_remote",
        role="loader_worker", index=_worker_of_batch,
    ),
    Scenario("pin_memory_thread", _HANG, Cause.DATA_LOADING, _TIME, "pin_memory"),
    Scenario(
        "evaluation_loader", _HANG, Cause.DATA_LOADING, _TIME, "read_label",
        role="loader_worker", index=_first_worker,
    ),
    # ranks that call different things
    Scenario("no_sync", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_lr", culprits=minority),
    Scenario("barrier_inside", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "save_checkpoint", culprits=minority),
    Scenario("uneven_inputs", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "end_epoch", culprits=minority),
    Scenario("uneven_shards", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "report", culprits=minority),
    Scenario(
        "checkpoint_gathers", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "save_sharded", culprits=minority
    ),
    Scenario(
        "swallowed_exception", _HANG, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_best_loss", culprits=minority
    ),
    # A circle through one send and one collective: what is wrong is the send that nobody receives.
    Scenario("missing_recv", _HANG, Cause.P2P_DEADLOCK, _STRUCTURAL, "hand_over", culprits=struck_and_next),
    # ranks that leave
    Scenario("thread_at_exit", _HANG, Cause.LEFT_EARLY, _STRUCTURAL),
    # The process lives on, so the job hangs; what happened is the exception, and the line is where it was raised.
    Scenario("raised_in_exit", _HANG, Cause.PYTHON_EXCEPTION, _STRUCTURAL, "parse_record"),
    # No exception and no signal: an exit code, which only the parent is told.
    Scenario("exit_in_spawn", _STOPPED, Cause.PYTHON_EXCEPTION, _STRUCTURAL, starts_itself=True),
    Scenario("unused_parameters", _STOPPED, Cause.PYTHON_EXCEPTION, _STRUCTURAL, "predict"),
    # healthy: these end by themselves with exit code 0, and nobody is alarmed
    *(
        Scenario(name, Status.HEALTHY, None, _TIME, culprits=nobody, every_time=name == "healthy")
        for name in (
            "healthy", "healthy_accumulation", "healthy_async_save", "healthy_compile", "healthy_epochs",
            "healthy_evaluation", "healthy_first_checkpoint", "healthy_growing", "healthy_join", "healthy_lr_finder",
            "healthy_paused", "healthy_plain_loop", "healthy_reexec", "healthy_remote_evaluation", "healthy_resumed",
            "healthy_slow_data", "healthy_spikes", "healthy_tokenizing",
        )
    ),
    *_OFF_MAIN,
)  # fmt: skip

TORCH: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
SCENARIOS: dict[str, Scenario] = {**TORCH, **TENSORFLOW}
