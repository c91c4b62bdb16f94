"""One rank calls a C function that sleeps without giving up the GIL: no other Python thread of it runs."""

import ctypes

import training


def tokenize() -> None:
    ctypes.PyDLL(None).sleep(training.LIFETIME_S)  # <- stuck here


training.run(tokenize)
