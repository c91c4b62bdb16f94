"""One worker that is not the leader is killed with SIGKILL; TensorFlow misses its heartbeats some seconds later."""

import os
import signal

import training


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


args = training.arguments()
args.rank = args.rank or 1
training.train(args, die)
