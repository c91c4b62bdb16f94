"""One rank gets stuck in its very first step: nobody knows yet how long a step of this job takes."""

import time

import training


def load_tokenizer() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
args.at = 0
training.join_and_train(args, load_tokenizer)
