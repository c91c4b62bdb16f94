"""Data that ends in a queue of TensorFlow's own which nobody fills: C++ waits, and no thread of Python shows it.

Enters: how many examples there are. Leaves: a dataset that has a next example for ever, and does not give it.
"""

import tensorflow as tf
import training


def examples(limit: int) -> tf.data.Dataset:
    """So many; the next one waits in a dequeue that nobody answers."""
    with tf.device("CPU:0"):
        empty = tf.queue.FIFOQueue(1, [tf.int64], [()])
    dry = tf.data.Dataset.range(10**9).map(lambda _: empty.dequeue())
    return training.numbers().take(limit).concatenate(dry.map(training.example))
