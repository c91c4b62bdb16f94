"""One worker asks a service that never answers; the others wait for it in the gradients' all-reduce."""

import time

import training


def ask_feature_store() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


training.train(training.arguments(), ask_feature_store)
