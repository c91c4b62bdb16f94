"""The first worker, to which all heartbeats go, is killed with SIGKILL; the others lose their connection at once."""

import os
import signal

import training


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


args = training.arguments()
args.rank = 0
training.train(args, die)
