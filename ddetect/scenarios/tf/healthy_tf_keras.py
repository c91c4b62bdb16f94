"""A healthy job of several workers: tf_keras `fit`, several epochs, each with a validation and a checkpoint."""

import os
import tempfile
import time

import tensorflow as tf
import tf_keras as keras
import training


class Paced(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(args.step_ms / 1000)


def data(steps: int) -> tf.data.Dataset:
    """So many batches; few, as Keras frees the iterator of each epoch, and an old one does not go at once."""
    return training.batches(training.numbers().take(steps * training.batch_size(strategy)), strategy)


args = training.arguments(epochs=10, steps=20, validation_steps=10)
strategy = training.workers()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
with tempfile.TemporaryDirectory() as folder:
    # Every worker saves, each to a place of its own: the variables of all take part in it.
    saver = keras.callbacks.ModelCheckpoint(os.path.join(folder, "epoch-{epoch}"), save_weights_only=True)
    model.fit(
        data(args.steps),
        epochs=args.epochs,
        validation_data=data(args.validation_steps),
        callbacks=[Paced(), saver],
        verbose=0,
    )
