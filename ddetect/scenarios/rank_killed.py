"""One rank is killed with SIGKILL; the others lose their connection to it."""

import os
import signal

import training


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


training.run(die)
