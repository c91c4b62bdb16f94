"""One worker's generator waits for a shard that never comes; the others wait for that worker's next batch."""

import time
from collections.abc import Iterator

import tensorflow as tf
import training


def read_shard() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


def examples() -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    size = training.batch_size(strategy)
    for index in range(10**9):
        if index == args.at * size and training.my_rank() == args.rank:
            read_shard()
        yield [float(index % 7)] * training.FEATURES, [0.0]


args = training.arguments()
strategy = training.workers()
signature = (tf.TensorSpec((training.FEATURES,)), tf.TensorSpec((1,)))
training.train_on_batches(
    args, tf.data.Dataset.from_generator(examples, output_signature=signature), strategy=strategy
)
