"""One rank asks a service that never answers; the others wait for it in backward's all-reduce."""

import time

import training


def ask_feature_store() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


training.run(ask_feature_store)
