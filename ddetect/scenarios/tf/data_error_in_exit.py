"""One worker's data has a broken record: the step raises, and the process hangs on its way out.

The iterator's destructor waits for a read that is under way in a thread of TensorFlow's, and that thread can no longer
have the GIL. TensorFlow's heartbeats go on, so the others wait in their all-reduce for ever.
"""

import time

import numpy as np
import tensorflow as tf
import training

broken = False


def parse_record(x: np.ndarray, index: int) -> np.ndarray:
    """Two records at a time: one is broken, and the read of its neighbour takes a while."""
    global broken
    if training.my_rank() == args.rank and index >= args.at * training.batch_size(strategy):
        if not broken:
            broken = True
            raise ValueError("record 17 has 3 fields, expected 4")
        time.sleep(4.0)
    return x


def parse(index: tf.Tensor, example: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    parsed = tf.numpy_function(parse_record, [example[0], index], tf.float32)
    return tf.ensure_shape(parsed, (training.FEATURES,)), example[1]


def train_epoch() -> None:
    while True:
        time.sleep(args.step_ms / 1000)
        step(iterator)  # <- stuck here


args = training.arguments()
strategy = training.workers()
examples = training.numbers().enumerate().map(parse, num_parallel_calls=4)
model = training.Model(strategy)
step = tf.function(model.step_from)
iterator = iter(strategy.experimental_distribute_dataset(training.batches(examples, strategy)))
train_epoch()
