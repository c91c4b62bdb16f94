"""TensorFlow's scenarios and the truth about each: the task or replica that was struck, and what was done to it.

Enters: nothing. Leaves: `TENSORFLOW`. Never here: TensorFlow, or what it makes of it: its own abort some seconds after
a stop or an early end is a consequence, and never the truth.

Two truths are not obvious. A step that waits for data in C++ inside the graph looks, from Python, like one that waits
for the others: of several workers nobody may be named, of one process there is nobody else. And of workers that call
different collectives TensorFlow lets all die of one error; what helps is who called something else than the others.
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.model import Cause, Proof, Status
from ddetect.scenarios.scenario import Scenario, first, follower, lane, minority, nobody, struck

_HANG, _STOPPED, _HEALTHY = Status.HANG, Status.STOPPED, Status.HEALTHY
_STRUCTURAL, _TIME = Proof.STRUCTURAL, Proof.TIME

_WORKERS = (
    # a worker's data
    Scenario("tf_generator", _HANG, Cause.DATA_LOADING, _TIME, "read_shard", every_time=True),
    Scenario("tf_py_function", _HANG, Cause.DATA_LOADING, _TIME, "decode_image"),
    Scenario("tf_numpy_function_gil", _HANG, Cause.GIL_HELD, _TIME, "tokenize", every_time=True),
    Scenario(
        "tf_starved_worker", Status.UNDECIDED, None, _TIME, culprits=nobody, left_open=struck, every_time=True
    ),
    # The process lives on, so the job hangs; what happened is the exception, and the line is where it came out.
    Scenario("tf_data_error_in_exit", _HANG, Cause.PYTHON_EXCEPTION, _STRUCTURAL, "train_epoch", every_time=True),
    # what it does instead of its step
    Scenario("tf_user_sleep", _HANG, Cause.USER_CODE, _TIME, "ask_feature_store"),
    Scenario("tf_keras_callback", _HANG, Cause.USER_CODE, _TIME, "log_to_tracker", every_time=True),
    Scenario("tf_python_lock", _HANG, Cause.PYTHON_LOCK, _TIME, "log_metrics", every_time=True),
    Scenario(
        "tf_checkpoint_chief", _HANG, Cause.FILE_IO, _TIME, "save_checkpoint",
        culprits=first, chief=True, every_time=True,
    ),
    # workers that are gone
    Scenario("tf_worker_stopped", _HANG, Cause.PROCESS_STOPPED, _STRUCTURAL, "suspend", every_time=True),
    Scenario("tf_worker_killed", _STOPPED, Cause.KILLED_BY_SIGNAL, _STRUCTURAL, culprits=follower, every_time=True),
    Scenario("tf_leader_killed", _STOPPED, Cause.KILLED_BY_SIGNAL, _STRUCTURAL, culprits=first),
    Scenario("tf_never_started", _HANG, Cause.RENDEZVOUS, _TIME, absent=True, before_first_step=True, every_time=True),
    # Who stood next to it in the ring reads of a closed socket, or waits for eight seconds: as it comes.
    Scenario(
        "tf_left_early", _HANG, Cause.LEFT_EARLY, _STRUCTURAL, or_stopped=True, culprits=follower, every_time=True
    ),
    # workers that call different things
    Scenario(
        "tf_mismatch_type", _STOPPED, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_metrics", culprits=minority,
        every_time=True,
    ),
    Scenario(
        "tf_mismatch_shape", _STOPPED, Cause.COLLECTIVE_MISMATCH, _STRUCTURAL, "share_metrics", culprits=minority
    ),
    # what only looks bad: nobody is at fault while something moves
    *(
        Scenario(name, _HEALTHY, None, _TIME, culprits=nobody)
        for name in ("tf_uneven_nan", "tf_shuffle_buffer", "tf_retracing", "tf_healthy_tf_keras")
    ),
    Scenario("tf_healthy_workers", _HEALTHY, None, _TIME, culprits=nobody, every_time=True),
    Scenario("tf_slow_trace", _HEALTHY, None, _TIME, culprits=nobody, may_say=(Cause.BUILDING,)),
)  # fmt: skip

_REPLICAS = tuple(
    replace(scenario, replicas=True)
    for scenario in (
        Scenario(
            "tf_replica_eager", _HANG, Cause.USER_CODE, _TIME, "look_up_embedding",
            culprits=first, lane=lane, every_time=True,
        ),
        Scenario("tf_replica_traced", _HANG, Cause.USER_CODE, _TIME, "score_samples", culprits=first, lane=lane),
        Scenario("tf_keras_generator", _HANG, Cause.DATA_LOADING, _TIME, "read_shard", culprits=first),
        Scenario("tf_starved_replicas", _HANG, Cause.DATA_LOADING, _TIME, culprits=first, every_time=True),
        Scenario("tf_healthy_keras", _HEALTHY, None, _TIME, culprits=nobody, every_time=True),
        Scenario("tf_healthy_pauses", _HEALTHY, None, _TIME, culprits=nobody),
        Scenario("tf_healthy_long_graph", _HEALTHY, None, _TIME, culprits=nobody, every_time=True),
    )
)  # fmt: skip

TENSORFLOW: dict[str, Scenario] = {
    scenario.name: replace(scenario, framework="tensorflow") for scenario in (*_WORKERS, *_REPLICAS)
}
