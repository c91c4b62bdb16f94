"""tf_keras, several workers: a callback of one asks a tracking server that never answers; `fit` of the others waits."""

import time

import tf_keras as keras
import training


def log_to_tracker() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


class Tracker(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(args.step_ms / 1000)
        if batch == args.at and training.my_rank() == args.rank:
            log_to_tracker()


args = training.arguments()
strategy = training.workers()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
model.fit(training.batches(training.numbers(), strategy), callbacks=[Tracker()], verbose=0)
