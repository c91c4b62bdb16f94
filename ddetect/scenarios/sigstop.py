"""One rank is stopped (as by ctrl-Z, a debugger or a batch system); the others wait for it."""

import os
import signal

import training


def suspend() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # <- stuck here


training.run(suspend)
