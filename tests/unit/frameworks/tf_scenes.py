"""TensorFlow jobs as snapshots: tasks or replicas, each with its threads, its phase and the number of its step.

Stacks are those of TensorFlow 2.21, as py-spy reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ddetect.model import (
    Beats,
    Comms,
    Gone,
    Group,
    Look,
    Phase,
    Progress,
    Role,
    Roster,
    Sample,
    Sighting,
    Snapshot,
    Thread,
)
from tests.unit.correlate.scenes import FUTEX, LIB, SITE, SLEEPS, sighting, thread

TF = f"{SITE}/tensorflow/python"
LOOP = "<module> /job/train.py:118"
CALL = (
    f"quick_execute {TF}/eager/execute.py:53",
    f"call_function {TF}/eager/context.py:1688",
    f"call_flat {TF}/eager/polymorphic_function/atomic_function.py:251",
    f"_call_flat {TF}/eager/polymorphic_function/concrete_function.py:1322",
    f"_call {TF}/eager/polymorphic_function/polymorphic_function.py:878",
    f"__call__ {TF}/eager/polymorphic_function/polymorphic_function.py:833",
    f"error_handler {TF}/util/traceback_utils.py:164",
)
STEP = thread(*CALL, LOOP, **FUTEX)
CALLED_BY_GRAPH = (
    f"wrapper {TF}/autograph/impl/api.py:643",
    f"__call__ {TF}/ops/script_ops.py:269",
)
GENERATOR = thread(
    "read_shard /job/data.py:32",
    f"generator_py_func {TF}/data/ops/from_generator_op.py:198",
    *CALLED_BY_GRAPH,
    main=False,
    name="",
    **SLEEPS,
)
PY_FUNCTION = thread(
    "augment /job/data.py:42",
    *CALLED_BY_GRAPH[:1],
    f"_call {TF}/ops/script_ops.py:152",
    *CALLED_BY_GRAPH[1:],
    main=False,
    name="",
    **SLEEPS,
)
ASLEEP = thread("ask_feature_store /job/train.py:71", LOOP, **SLEEPS)
NEXT = thread(
    f"iterator_get_next_as_optional {TF}/ops/gen_dataset_ops.py:3162",
    f"get_next_as_optional {TF}/data/ops/iterator_ops.py:886",
    f"get_next {TF}/distribute/input_lib.py:330",
    f"__next__ {TF}/distribute/input_lib.py:264",
    LOOP,
    **FUTEX,
)
EAGER_REDUCE = thread(
    f"wait {LIB}/threading.py:327",
    f"get {LIB}/multiprocessing/pool.py:768",
    f"_all_reduce_per_replica_values {TF}/distribute/cross_device_ops.py:1100",
    f"_calculate_replicas_with_values {TF}/distribute/input_lib.py:198",
    f"get_next {TF}/distribute/input_lib.py:340",
    f"__next__ {TF}/distribute/input_lib.py:264",
    LOOP,
    **FUTEX,
)
JOINING = thread(
    f"ensure_initialized {TF}/eager/context.py:745",
    f"_initialize_multi_worker {TF}/distribute/collective_all_reduce_strategy.py:602",
    f"__init__ {TF}/distribute/collective_all_reduce_strategy.py:187",
    "<module> /job/train.py:23",
    **FUTEX,
)
TRACING = thread(
    "tf__replica_step /tmp/__autograph_generated_filexk2.py:11",
    f"converted_call {TF}/autograph/impl/api.py:439",
    f"func_graph_from_py_func {TF}/framework/func_graph.py:1060",
    f"trace_function {TF}/eager/polymorphic_function/tracing_compilation.py:178",
    f"__call__ {TF}/eager/polymorphic_function/polymorphic_function.py:833",
    LOOP,
    active=True,
    state="R",
)
REPLICA = (f"run {TF}/distribute/mirrored_run.py:387", f"_bootstrap_inner {LIB}/threading.py:1045")
MERGES = (
    f"wait {LIB}/threading.py:327",
    f"_merge_call {TF}/distribute/mirrored_run.py:518",
    f"merge_call {TF}/distribute/distribute_lib.py:3478",
    "replica_step /job/train.py:12",
    *REPLICA,
)
TURN = (f"wait {LIB}/threading.py:327", f"run {TF}/distribute/mirrored_run.py:362", REPLICA[1])
BLOCKED = ("augment /job/train.py:11", *REPLICA)
ALL_REPLICAS = thread(
    f"wait {LIB}/threading.py:327",
    f"_call_for_each_replica {TF}/distribute/mirrored_run.py:226",
    f"run {TF}/distribute/distribute_lib.py:1673",
    "<module> /job/train.py:14",
    **FUTEX,
)
STARVED = (
    "tensorflow::data::PrefetchDatasetOp::Dataset::Iterator::GetNextInternal",
    "tensorflow::data::MultiDeviceIterator::MultiDeviceBuffer::BackgroundThread",
)
REDUCES = ("tensorflow::RingAlg::PCQueue::Dequeue", "tensorflow::RingReducer::RunAsyncParts")


def below(*native: str) -> Thread:
    """A thread of the runtime, of which only a native stack tells."""
    return Thread("tf_Compute", False, False, False, (), native=native, **{"state": "S", **FUTEX})


@dataclass
class Member:
    """A task, or one of its replicas: its threads, its phase, the newest number it took, whether that is open."""

    threads: tuple[Thread, ...] = ()
    phase: Phase = Phase.OTHER
    number: int = 127
    open_from: int = 0
    tick_age_s: float = 0.1
    state: str = "S"


def in_step(*more: Thread) -> Member:
    """Inside a step that took the numbers 128 to 130."""
    return Member((STEP, *more), Phase.STEP, 130, 128)


def elsewhere(*threads: Thread, phase: Phase = Phase.OTHER) -> Member:
    """Has not begun that step."""
    return Member(threads, phase)


@dataclass
class Job:
    """Members by rank; `lanes` where one process has several."""

    members: list[Member] = field(default_factory=list)
    lanes: bool = False
    numbers: bool = True
    gone: tuple[Gone, ...] = ()
    pages: bool = True
    world: int = 0

    def snapshot(self) -> Snapshot:
        count = len(self.members)
        ranks = [0] * count if self.lanes else list(range(count))
        lanes = list(range(count)) if self.lanes else [0] * count
        left = {gone.rank for gone in self.gone}
        here = [n for n in range(count) if self.lanes or n not in left]

        def column(values: list[float]) -> list[float]:
            return [values[n] for n in here]

        roster = Roster(
            rank=column(ranks), lane=column(lanes), node=[0] * len(here), pid=column([4000 + r for r in ranks]),
            start_ticks=[0] * len(here), nodes=("node-0",),
        )  # fmt: skip
        some = [0] * len(here)
        beats = Beats(
            step=[5] * len(here), step_age_s=[30.0] * len(here), batch=some, calls=some, collectives=some,
            activity_age_s=[30.0] * len(here), phase=column([m.phase for m in self.members]),
            phase_age_s=[30.0] * len(here), tick_age_s=column([m.tick_age_s for m in self.members]),
            state=[ord("S")] * len(here), cpu_s=some, io_bytes=some, has_page=[int(self.pages)] * len(here),
        )  # fmt: skip
        looks = [sighting(*self.members[n].threads, state=self.members[n].state) for n in here]
        if self.lanes:
            looks = [sighting(*(one for member in self.members for one in member.threads))]
        return Snapshot(
            job="job", framework="tensorflow", world_size=self.world or (1 if self.lanes else count), roster=roster,
            beats=beats, looks=(self._look(looks, column(ranks)),) * 3, gone=self.gone, stalled_for_s=30.0,
        )  # fmt: skip

    def _look(self, looks: list[Sighting], ranks: list[float]) -> Look:
        rows = len(looks)
        sample = Sample(
            rank=ranks[:rows], role=[Role.RANK] * rows, index=[-1] * rows, pid=[4000 + r for r in ranks[:rows]],
            sighting=list(range(rows)), fetching=[-1] * rows, fetch_age_s=[np.inf] * rows, cpu_s=[1.0] * rows,
            io_bytes=[0] * rows, tick_age_s=[m.tick_age_s for m in self.members[:rows]], sightings=tuple(looks),
        )  # fmt: skip
        if not self.numbers or self.lanes:
            return Look(sample)
        numbered = [n for n in range(len(self.members)) if n in ranks]
        progress = Progress(
            rank=numbered, group=[0] * len(numbered), enqueued=[self.members[n].number for n in numbered],
            started=[0] * len(numbered), completed=[127] * len(numbered),
            oldest_open=[self.members[n].open_from for n in numbered], first_kept=[1] * len(numbered),
        )  # fmt: skip
        everyone = tuple(range(len(self.members)))
        return Look(sample, Comms(groups=(Group("ring", "1", "", everyone),), progress=progress))
