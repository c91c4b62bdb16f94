"""TensorFlow: MirroredStrategy, MultiWorkerMirroredStrategy, Keras 3, tf_keras and plain loops.

A step is one call into a graph: its Python stack is the same whether it computes, waits for data or for others, and
the numbers of its collectives are taken when the call begins. Python that the graph calls (generators, py_function) and
threads of the runtime tell more. Enters: stacks.json, once. Leaves: `TENSORFLOW`. Never here: TensorFlow itself.
"""

from __future__ import annotations

import re
from importlib import resources

from ddetect.frameworks.framework import Framework, NativeMode
from ddetect.frameworks.general import GENERAL_PATTERNS
from ddetect.frameworks.patterns import parse_patterns
from ddetect.frameworks.tensorflow.deaths import refuses_calls, saw_a_death, tells_of_a_peer
from ddetect.frameworks.tensorflow.operations import announces, operation
from ddetect.frameworks.tensorflow.pauses import stands_s
from ddetect.model import Words

TENSORFLOW = Framework(
    name="tensorflow",
    patterns=parse_patterns(
        resources.files("ddetect.frameworks.tensorflow").joinpath("stacks.json").read_text(encoding="utf-8"),
        "tensorflow/stacks.json",
    ).among(GENERAL_PATTERNS),
    operation=operation,
    announces=announces,
    tells_of_a_peer=tells_of_a_peer,
    saw_a_death=saw_a_death,
    refuses_calls=refuses_calls,
    handles=False,  # every wait has a frame of its own
    aside=re.compile(r"^evaluator\b"),
    stands_s=stands_s,
    exit_takes_s=90.0,  # it frees iterators
    # A reduction on its way. Idle threads of the same pool are in none of these.
    native_call=re.compile(
        r"\b(Ring(Reducer|Gatherer|Alg)|NcclReducer|NcclManager|HierarchicalTreeBroadcaster)::"
    ),
    # The step's iterator, which waits for its source; with a full buffer it stands in BackgroundThread itself.
    native_data=re.compile(
        r"\bIterator::GetNextInternal|\bIteratorGetNext\w*Op::|\bIteratorResource::GetNext"
    ),
    native_mode=lambda world: NativeMode.ALL if world == 1 else NativeMode.NONE,
    raises_letters=True,
    worker_loop=re.compile(
        r"keras/src/(trainers/data_adapters/py_dataset_adapter|utils/data_utils)\.py:get_index$"
    ),
    # gRPC's, which listen and count time. Not those that compute: tf_Compute, tf_data_*, collective_ops.
    service_threads=re.compile(r"^(grpc|event_engine|lifeguard|resolver-|default-execut|cuda[-\d])"),
    hands_over=re.compile(r"tensorflow/python/ops/script_ops\.py$"),  # Python that a pipeline calls
    between_lanes=frozenset({"merge_call"}),
    words=Words(
        inside="a step",
        join="MultiWorkerMirroredStrategy",
        loader="its input pipeline",
        in_steps=("all_reduce", operation(None).name),
        even_steps="the same number of batches for every worker (`repeat()` with `steps_per_epoch`)",
        below="the network between workers, or CommunicationOptions",
        starved="look at the source of its tf.data pipeline (files, a bucket, a queue)",
        see_through=(
            "See what the step waits for: `pystack remote --native-all PID` shows GetNext (data) or RingReducer."
            " It pauses a process for seconds, and TensorFlow ends a job of several workers for that: one worker, once."
        ),
    ),
)
