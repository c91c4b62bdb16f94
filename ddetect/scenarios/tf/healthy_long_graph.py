"""A healthy job that evaluates in one long call: a loop inside the graph, over data that takes work to make.

No step ends for half a minute, Python shows one call, and the pipeline is met in its source. It computes all the time.
"""

import time

import tensorflow as tf
import training


def costly(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    noise = tf.random.uniform((200, 200))
    return x + tf.reduce_mean(noise @ noise @ noise), y


@tf.function
def evaluate(data: tf.data.Dataset, until: tf.Tensor) -> tf.Tensor:
    total = tf.constant(0.0)
    for x, y in data:
        if tf.timestamp() > until:
            break
        total += tf.reduce_mean((x - y) ** 2)
    return total


args = training.arguments(steps=60, evaluate_s=35.0)
strategy = training.mirrored(args.replicas)
training.train_on_batches(args, steps=args.steps, strategy=strategy)
examples = training.numbers().map(costly).batch(training.BATCH_SIZE)
evaluate(examples, tf.constant(time.time() + args.evaluate_s, tf.float64))
