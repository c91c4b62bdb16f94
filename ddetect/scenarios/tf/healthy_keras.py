"""A healthy job of several replicas in one process: Keras 3 `fit`, several epochs, each with a validation."""

import time

import keras
import tensorflow as tf
import training


class Paced(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(args.step_ms / 1000)

    def on_test_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(2 * args.step_ms / 1000)


def data(steps: int) -> tf.data.Dataset:
    """So many batches; few, as Keras frees the iterator of each epoch, and an old one does not go at once."""
    return training.batches(training.numbers().take(steps * training.batch_size(strategy)), strategy)


args = training.arguments(epochs=10, steps=20, validation_steps=10)
strategy = training.mirrored(args.replicas)
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
model.fit(
    data(args.steps),
    epochs=args.epochs,
    validation_data=data(args.validation_steps),
    callbacks=[Paced()],
    verbose=0,
)
