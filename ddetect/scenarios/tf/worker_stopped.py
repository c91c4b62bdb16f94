"""One worker is stopped (as by ctrl-Z, a debugger or a batch system); some seconds later TensorFlow gives it up."""

import os
import signal

import training


def suspend() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # <- stuck here


training.train(training.arguments(), suspend)
