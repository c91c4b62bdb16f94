"""The programs of the exam, each with its pace and its truth: healthy ones, hangs at the same paces, and twins.

Enters: nothing. Leaves: `CASES`, by name; a hang is called NAME.hang, a twin NAME.twin. A kind's twin hangs where the
kind is, while something goes on beside it; its limit is that of the table for what the noise is to a judge.
Never here: torch, TensorFlow, a process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ddetect.model import Cause
from tests.long.case import TWIN_PATIENCE_S, Case, Frozen, Situation, Started, Suite

CODE, LOCK, DATA, FILE = Cause.USER_CODE, Cause.PYTHON_LOCK, Cause.DATA_LOADING, Cause.FILE_IO
STILL, POLLS, RUNS = Situation.STILL, Situation.POLLS, Situation.RUNS
TWO_K, TWO_HUNDRED_K = ("--rate", "2000"), ("--rate", "200000")


def _healthy(
    name: str, kind: str, program: str, *options: str, lasts_s: float, pace_s: float = 0.0, **more: Any
) -> Case:
    return Case(name, Suite.HEALTHY, kind, program, options, lasts_s=lasts_s, pace_s=pace_s, **more)


_IN_C: dict[str, Any] = {"needs_cc": True}
_TWO_WORKERS: dict[str, Any] = {"started": Started.WORKERS}
_CHIEF: dict[str, Any] = {"started": Started.CHIEF, "rank": 0}
_ALONE: dict[str, Any] = {"started": Started.ALONE, "rank": 0}

HEALTHY = (
    # long and irregular steps
    _healthy("steps_12s", "steps of 12 s", "steps", lasts_s=530, pace_s=15.6, **_IN_C),
    _healthy(
        "steps_45s", "steps of 45 s", "steps", "--steps", "14", "--step-s", "45", lasts_s=680, pace_s=58.5, **_IN_C
    ),
    _healthy("rollouts", "rollouts of 90-200 s, far away", "rollouts", lasts_s=1420, pace_s=200.0),
    _healthy("rollouts_child", "rollouts of 84-156 s, in a child", "rollouts_child", lasts_s=900, pace_s=156.0),
    _healthy("accumulation", "gradient accumulation", "accumulation", lasts_s=650, pace_s=128.0),
    # evaluation
    _healthy("evaluation_all", "evaluation on all ranks", "evaluation", lasts_s=830, pace_s=165.0),
    _healthy(
        "evaluation_barrier", "evaluation on one rank, others in a barrier", "evaluation", "--where", "barrier",
        lasts_s=820, pace_s=160.0, rank=0,
    ),
    _healthy(
        "evaluation_reduce", "evaluation on one rank, others in all_reduce", "evaluation", "--where", "reduce",
        "--rounds", "3", "--batches", "40", lasts_s=890, pace_s=250.0, rank=0,
    ),
    _healthy(
        "evaluation_subprocess", "evaluation in a subprocess", "evaluation_subprocess",
        lasts_s=770, pace_s=240.0, rank=0,
    ),
    _healthy("evaluation_loader", "evaluation through a DataLoader", "evaluation_loader", lasts_s=620, pace_s=165.0),
    # before the first step, and the first step
    _healthy("tokenizing_pool", "preprocessing in a pool", "tokenizing_pool", lasts_s=580, rank=0),
    _healthy("first_compile", "first step of ten minutes, one call", "first_step", lasts_s=860, **_IN_C),
    _healthy(
        "first_threads", "first step of ten minutes, in threads", "first_step", "--how", "threads",
        lasts_s=860, **_IN_C,
    ),
    # slow lines
    _healthy("upload_thread_2k", "upload in a thread, 2 kB/s", "transfers", *TWO_K, lasts_s=610, pace_s=173.0),
    _healthy(
        "upload_thread_200k", "upload in a thread, 200 kB/s", "transfers", *TWO_HUNDRED_K,
        lasts_s=610, pace_s=173.0, rank=0,
    ),
    _healthy(
        "download_thread_2k", "download in a thread, 2 kB/s", "transfers", *TWO_K, "--way", "down",
        lasts_s=610, pace_s=173.0,
    ),
    _healthy(
        "download_main_2k", "download in the main thread, 2 kB/s", "transfers", *TWO_K, "--way", "down",
        "--where", "main", "--transfer-s", "240", "--rounds", "2", lasts_s=590, pace_s=276.0,
    ),
    _healthy(
        "upload_main_200k", "upload in the main thread, 200 kB/s", "transfers", *TWO_HUNDRED_K, "--where", "main",
        lasts_s=610, pace_s=173.0, rank=0,
    ),
    _healthy("download_worker_2k", "download in loader workers, 2 kB/s", "loader_downloads", *TWO_K,
             lasts_s=760, pace_s=65.0),
    _healthy("download_worker_200k", "download in loader workers, 200 kB/s", "loader_downloads", *TWO_HUNDRED_K,
             "--steps", "16", "--example-s", "80", lasts_s=800, pace_s=104.0),
    _healthy("slow_store", "a store that answers after 150 s", "slow_store", lasts_s=750, pace_s=150.0),
    # slow disks, and the end
    _healthy("checkpoint_fsync", "checkpoint to a slow disk, fsync", "checkpoint", lasts_s=660, pace_s=185.0, rank=0),
    _healthy(
        "checkpoint_pipe", "checkpoint to a slow pipe", "checkpoint", "--how", "pipe",
        lasts_s=660, pace_s=185.0, rank=0,
    ),
    _healthy("final_writes", "final writes of one rank", "final_writes", lasts_s=620, rank=0),
    # somebody freezes it
    _healthy(
        "freeze_job", "the job is frozen for 3 minutes", "frozen", lasts_s=530, pace_s=2.4,
        frozen=Frozen.JOB, frozen_at_s=120.0, frozen_for_s=180.0,
    ),
    _healthy(
        "freeze_all", "everything is frozen for 3 minutes", "frozen", lasts_s=530, pace_s=2.4,
        frozen=Frozen.ALL, frozen_at_s=120.0, frozen_for_s=180.0,
    ),
    # TensorFlow
    _healthy("tf_shuffle", "TensorFlow: filling a shuffle buffer", "tf_shuffle", lasts_s=560, **_TWO_WORKERS),
    _healthy("tf_trace", "TensorFlow: a first trace of minutes", "tf_trace", lasts_s=560, **_TWO_WORKERS),
    _healthy("tf_evaluation", "TensorFlow: evaluation on the chief", "tf_evaluation",
             lasts_s=610, pace_s=130.0, **_CHIEF),
    _healthy("tf_checkpoint", "TensorFlow: checkpoint on the chief", "tf_checkpoint",
             lasts_s=540, pace_s=110.0, **_CHIEF),
    _healthy("tf_source", "TensorFlow: a slow tf.data source", "tf_source", lasts_s=600, pace_s=39.0, **_ALONE),
    _healthy("tf_steps", "TensorFlow: steps of 38 s", "tf_steps", lasts_s=570, pace_s=48.0, **_ALONE),
)  # fmt: skip

_BY_NAME = {case.name: case for case in HEALTHY}


def _hang(
    name: str,
    at: int,
    function: str | tuple[str, ...],
    *causes: Cause,
    lasts_s: float,
    options: tuple[str, ...] = (),
) -> Case:
    """A healthy program that hangs for good at this round, at default settings; so long after its start."""
    kind = _BY_NAME[name]
    return replace(
        kind,
        name=f"{name}.hang",
        suite=Suite.HANG,
        options=(*kind.options, *options, "--hang-at", str(at)),
        lasts_s=lasts_s,
        functions=(function,) if isinstance(function, str) else function,
        causes=causes,
    )


HANGS = (
    _hang("steps_12s", 20, "log_metrics", LOCK, lasts_s=280, options=("--how", "lock")),
    _hang("steps_45s", 8, "forward", CODE, lasts_s=400),
    _hang("rollouts", 3, "collect_episodes", CODE, lasts_s=500),
    _hang("rollouts_child", 3, "collect_episodes", CODE, lasts_s=420),
    _hang("accumulation", 2, "next_batch", LOCK, CODE, lasts_s=330),
    _hang("evaluation_barrier", 2, "read_labels", FILE, lasts_s=520),
    _hang("evaluation_subprocess", 1, "evaluate", CODE, lasts_s=310),
    _hang("evaluation_loader", 1, "decode_film", DATA, lasts_s=320),
    _hang("tokenizing_pool", 0, ("tokenize", "tokenize_corpus"), CODE, LOCK, lasts_s=400),
    _hang("first_compile", 0, "compile_graph", CODE, lasts_s=15),
    _hang("upload_thread_2k", 1, "upload", CODE, lasts_s=260),
    _hang("download_worker_2k", 10, "fetch", DATA, lasts_s=300),
    _hang("slow_store", 1, "ask_for_quota", CODE, lasts_s=220),
    _hang("checkpoint_pipe", 1, "save_to_pipe", FILE, CODE, lasts_s=290),
    _hang("tf_evaluation", 1, "score", LOCK, lasts_s=310),
    _hang("tf_source", 8, "read_shard", DATA, CODE, lasts_s=250),
)  # fmt: skip


# Programs that do something long every so many steps: however short that is in a twin, the steps between have a pace.
_STEPS_BETWEEN = (
    "evaluation", "evaluation_subprocess", "evaluation_loader", "transfers", "slow_store", "checkpoint",
    "tf_evaluation", "tf_checkpoint",
)  # fmt: skip
_TWIN_STEP_S = 0.8


def _twin(
    name: str,
    at: int,
    function: str | tuple[str, ...],
    noise: str,
    situation: Situation,
    *,
    shorter: float,
    options: tuple[str, ...] = (),
    causes: tuple[Cause, ...] = (),
    called: str = "twin",
    **more: Any,
) -> Case:
    """The kind hangs soon, at a pace at which its usual gaps do not lengthen patience; `options` make the hang."""
    kind = _BY_NAME[name]
    steps = ("--step-s", f"{_TWIN_STEP_S * shorter:g}") if kind.program in _STEPS_BETWEEN else ()
    assert 3 * kind.pace_s / shorter <= 0.85 * TWIN_PATIENCE_S, name
    return replace(
        kind,
        name=f"{name}.{called}",
        suite=Suite.TWIN,
        options=(*kind.options, *steps, *options, *(["--hang-at", str(at)] if at >= 0 else [])),
        lasts_s=90.0 * shorter,
        functions=(function,) if isinstance(function, str) else function,
        causes=causes,
        noise=noise,
        situation=situation,
        shorter=shorter,
        **more,
    )


TWINS = (
    _twin("steps_12s", 20, "log_metrics", "psutil", POLLS, shorter=6, options=("--how", "lock"), causes=(LOCK,)),
    _twin("steps_12s", 20, "balance_experts", "", RUNS, shorter=6, options=("--how", "spin"), causes=(CODE,),
          called="spins"),
    _twin("steps_45s", 12, "forward", "heartbeat", POLLS, shorter=18, causes=(CODE,)),
    _twin("steps_45s", 12, "wait_for_flag", "tracker", POLLS, shorter=18, options=("--how", "flag"), causes=(CODE,),
          called="polls"),
    _twin("rollouts", 3, "collect_episodes", "logger", POLLS, shorter=25, causes=(CODE,)),
    _twin("rollouts_child", 3, "collect_episodes", "", RUNS, shorter=20, options=("--hang", "spin"), causes=(CODE,)),
    _twin("accumulation", 3, "next_batch", "tracker", STILL, shorter=16, causes=(LOCK, CODE)),
    _twin("evaluation_all", 1, "read_labels", "spinner", STILL, shorter=21, causes=(FILE,)),
    _twin("evaluation_barrier", 1, "wait_for_flag", "", POLLS, shorter=20, options=("--how", "flag"), causes=(CODE,)),
    _twin("evaluation_reduce", 1, "read_labels", "heartbeat", POLLS, shorter=32, causes=(FILE,)),
    _twin("evaluation_subprocess", 1, "evaluate", "", RUNS, shorter=30, options=("--hang", "spin"), causes=(CODE,)),
    _twin("evaluation_loader", 1, "decode_film", "psutil", POLLS, shorter=21, causes=(DATA,)),
    _twin("tokenizing_pool", 0, ("tokenize", "tokenize_corpus"), "logger", POLLS, shorter=10, causes=(CODE, LOCK)),
    _twin("first_compile", 0, "compile_graph", "psutil", POLLS, shorter=10, causes=(CODE,)),
    _twin("first_threads", 0, "compile_graph", "heartbeat", POLLS, shorter=10, causes=(CODE,)),
    _twin("upload_thread_2k", 1, "upload", "heartbeat", POLLS, shorter=22, causes=(CODE,)),
    _twin("upload_thread_200k", 1, "upload", "tracker", STILL, shorter=22, causes=(CODE,)),
    _twin("download_thread_2k", 1, "download", "psutil", POLLS, shorter=22, causes=(CODE,)),
    _twin("download_main_2k", 1, "download", "logger", POLLS, shorter=35, causes=(CODE,)),
    _twin("upload_main_200k", 1, "upload", "heartbeat", POLLS, shorter=22, causes=(CODE,)),
    _twin("download_worker_2k", 12, "fetch", "heartbeat", POLLS, shorter=9, causes=(DATA,)),
    _twin("download_worker_200k", 12, "fetch", "spinner", STILL, shorter=13, causes=(DATA,)),
    _twin("slow_store", 1, "ask_for_quota", "tracker", STILL, shorter=19, causes=(CODE,)),
    _twin("checkpoint_fsync", 1, "save_to_pipe", "psutil", POLLS, shorter=24, causes=(FILE, CODE)),
    _twin("checkpoint_pipe", 1, "save_to_pipe", "logger", POLLS, shorter=24, causes=(FILE, CODE)),
    _twin("final_writes", 0, "write_results", "tracker", RUNS, shorter=4, causes=(LOCK, CODE, Cause.LEFT_EARLY)),
    _twin("freeze_job", -1, (), "tracker", Situation.STRUCTURAL, shorter=2, causes=(Cause.PROCESS_STOPPED,),
          frozen=Frozen.RANK),
    _twin("freeze_all", 40, "log_metrics", "heartbeat", POLLS, shorter=2, causes=(LOCK,), frozen_at_s=50.0,
          frozen_for_s=30.0),
    _twin("tf_shuffle", 0, "read_record", "logger", POLLS, shorter=10, causes=(DATA,)),
    _twin("tf_trace", 0, "add_layer", "heartbeat", POLLS, shorter=10, causes=(Cause.BUILDING, LOCK, CODE)),
    _twin("tf_evaluation", 1, "score", "tracker", STILL, shorter=17, causes=(LOCK,)),
    _twin("tf_checkpoint", 1, "write_shard", "logger", POLLS, shorter=14, causes=(FILE,)),
    _twin("tf_source", 8, "read_shard", "heartbeat", POLLS, shorter=5, causes=(DATA, CODE)),
    _twin("tf_steps", 8, "simulate", "logger", POLLS, shorter=6, causes=(CODE, DATA, LOCK)),
)  # fmt: skip

CASES: dict[str, Case] = {case.name: case for case in (*HEALTHY, *HANGS, *TWINS)}
