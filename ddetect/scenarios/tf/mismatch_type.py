"""One worker alone adds up its metrics over all workers: an `if` around a collective. The others begin their step.

They first ask each other who has data left. That is a collective of integers, so TensorFlow refuses, and lets all of
them die of it.
"""

import tensorflow as tf
import training


def share_metrics() -> None:
    strategy.reduce("sum", tf.ones((7,)), axis=None)  # <- stuck here


args = training.arguments()
strategy = training.workers()
training.train(args, share_metrics, strategy=strategy)
