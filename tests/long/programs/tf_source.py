"""Keras, two replicas in one process: `fit` gets a batch every half a minute from a source far away."""

import urllib.request
from collections.abc import Iterator

import keras
import pace
import tf_training as training


def read_shard(number: int) -> None:
    seconds = pace.FOREVER_S if pace.strikes(number) else pace.uneven(args.shard_s, 0.4, number)
    with urllib.request.urlopen(
        f"http://{args.store}/late?after_s={seconds}&bytes=9000"
    ) as answer:  # <- stuck here
        answer.read()


def records() -> Iterator[training.Example]:
    size = training.BATCH_SIZE * strategy.num_replicas_in_sync
    for index, example in zip(range(args.shards * size), training.numbers(), strict=False):
        if index % size == 0:
            read_shard(index // size)
        yield example


args = pace.arguments(shards=20, shard_s=28.0)
strategy = training.mirrored()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
model.fit(training.batches(training.dataset(records), strategy), verbose=0)
