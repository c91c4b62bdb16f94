"""One worker fills a large shuffle buffer from a slow source before its first batch; then the job trains and ends."""

import time
from collections.abc import Iterator

import tensorflow as tf
import training


def examples() -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    filling = time.monotonic() + args.fill_s
    for index in range(10**9):
        if time.monotonic() < filling:
            time.sleep(args.fill_s / args.buffer)
        yield [float(index % 7)] * training.FEATURES, [0.0]


args = training.arguments(steps=150, buffer=1000, fill_s=25.0)
strategy = training.workers()
signature = (tf.TensorSpec((training.FEATURES,)), tf.TensorSpec((1,)))
data = tf.data.Dataset.from_generator(examples, output_signature=signature)
if training.my_rank() == args.rank:
    data = data.shuffle(args.buffer)
training.train(args, examples=data, steps=args.steps, strategy=strategy)
