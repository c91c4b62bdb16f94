"""One worker's data has a broken record: the step raises, and the process hangs on its way out.

The exception's traceback holds the iterator until the interpreter ends. The iterator's destructor then waits for reads
that are under way in threads of TensorFlow's, and those can no longer have the GIL. The heartbeats go on, so the others
wait in their all-reduce for ever.
"""

import time

import numpy as np
import tensorflow as tf
import training


def parse_record(x: np.ndarray, index: int) -> np.ndarray:
    """Several at a time: when the broken one is met, the reads of those after it are under way and take a while."""
    broken = args.at * training.batch_size(strategy)
    if training.my_rank() == args.rank and index >= broken:
        if index == broken:
            raise ValueError("record 17 has 3 fields, expected 4")
        time.sleep(3.0)
    return x


def parse(index: tf.Tensor, example: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    parsed = tf.numpy_function(parse_record, [example[0], index], tf.float32)
    return tf.ensure_shape(parsed, (training.FEATURES,)), example[1]


def train_epoch() -> None:
    # Not fused with `batch`, which would wait for all reads of a batch before it reports the broken one.
    examples = training.numbers().enumerate().map(parse, num_parallel_calls=4).prefetch(4)
    model = training.Model(strategy)
    step = tf.function(model.step_from)
    iterator = iter(strategy.experimental_distribute_dataset(training.batches(examples, strategy)))
    while True:
        time.sleep(args.step_ms / 1000)
        step(iterator)  # <- stuck here


args = training.arguments()
strategy = training.workers()
train_epoch()
