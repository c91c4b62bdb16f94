"""A model of very many small layers: its first trace takes minutes on every worker, its steps do not."""

import threading
import time

import pace
import tensorflow as tf
import tf_training as training

LAYERS = 300
names = threading.Lock()


class Deep(training.Model):
    def predict(self, x: tf.Tensor) -> tf.Tensor:
        for layer in range(LAYERS):  # Python runs here while the graph is built, and only then
            x = add_layer(x, layer)
        return super().predict(x)


def add_layer(x: tf.Tensor, layer: int) -> tf.Tensor:
    if layer == LAYERS // 2 and pace.strikes(0):
        names.acquire()
        names.acquire()  # <- stuck here
    time.sleep(args.trace_s / LAYERS)
    return x + 0.0 * float(layer)


args = pace.arguments(trace_s=330.0, steps=60, step_s=3.0)
strategy = training.workers()
model = Deep(strategy)
iterator = training.iterate(training.batches(training.dataset(), strategy), strategy)
for step in range(args.steps):
    model.step(iterator)
    time.sleep(pace.uneven(args.step_s, 0.2, step))
