"""Keras 3, several replicas in one process: `fit` waits for a generator that waits for a shard that never comes."""

import time
from collections.abc import Iterator

import keras
import tensorflow as tf
import training


def read_shard() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


def examples() -> Iterator[tuple[list[float], list[float]]]:
    for index in range(10**9):
        if index == args.at * training.batch_size(strategy):
            read_shard()
        yield [float(index % 7)] * training.FEATURES, [0.0]


class Paced(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(args.step_ms / 1000)


args = training.arguments()
strategy = training.mirrored(args.replicas)
signature = (tf.TensorSpec((training.FEATURES,)), tf.TensorSpec((1,)))
data = tf.data.Dataset.from_generator(examples, output_signature=signature)
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
model.fit(training.batches(data, strategy), callbacks=[Paced()], verbose=0)
