"""Two replicas in one process, and steps of most of a minute, with a simulation for each in the middle of the graph.

They simulate one after the other: TensorFlow runs Python in one place at a time.
"""

import threading
import time

import numpy as np
import pace
import tensorflow as tf
import tf_training as training


class Simulated(training.Model):
    def predict(self, x: tf.Tensor) -> tf.Tensor:
        noise = tf.ensure_shape(tf.numpy_function(simulate, [], tf.float32), ())
        return super().predict(x) + 0.0 * tf.stop_gradient(noise)


def simulate() -> np.float32:
    if pace.strikes(number):
        threading.Event().wait()  # <- stuck here
    np.linalg.svd(np.random.default_rng(number).random((60, 60)))
    time.sleep(pace.uneven(args.step_s, 0.25, number))
    return np.float32(0)


args = pace.arguments(steps=14, step_s=19.0)
strategy = training.mirrored()
model = Simulated(strategy)
iterator = training.iterate(training.batches(training.dataset(), strategy), strategy)
for number in range(args.steps):  # noqa: B007 - the simulation reads it
    model.step(iterator)
