"""A model of very many small layers: its first trace takes long on every worker, its steps do not."""

import time

import tensorflow as tf
import training


class Deep(training.Model):
    def improve(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        until = time.monotonic() + args.trace_s  # Python runs here while the graph is built, and only then
        layer = 0
        while time.monotonic() < until:
            x = add_layer(x, layer)
            layer += 1
        return super().improve(x, y)


def add_layer(x: tf.Tensor, number: int) -> tf.Tensor:
    time.sleep(0.02)
    return x + 0.0 * float(number)


args = training.arguments(steps=100, trace_s=20.0)
strategy = training.workers()
with strategy.scope():
    model = Deep(strategy)
step = tf.function(model.step_from)
iterator = training.iterate(training.batches(training.numbers(), strategy), strategy)
for _ in range(args.steps):
    time.sleep(args.step_ms / 1000)
    step(iterator)
