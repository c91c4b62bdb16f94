"""One worker alone adds up its metrics over all workers: an `if` around a collective. The others add gradients.

Those have another shape, so TensorFlow refuses, and lets all of them die of it.
"""

import time

import tensorflow as tf
import training


def share_metrics() -> None:
    strategy.reduce("sum", tf.ones((7,)), axis=None)  # <- stuck here


args = training.arguments()
strategy = training.workers()
model = training.Model(strategy)
step = tf.function(model.step_on)
for number, batch in enumerate(training.batches(training.numbers(), strategy)):
    time.sleep(args.step_ms / 1000)
    if number == args.at and training.my_rank() == args.rank:
        share_metrics()
    step(batch)
