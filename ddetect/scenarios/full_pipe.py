"""One rank prints into a pipe that nobody reads any more: when the pipe is full, print waits."""

import os

import training

_read_by_nobody, log_pipe = os.pipe()
log = os.fdopen(log_pipe, "w", buffering=1)


def print_table() -> None:
    for row in range(100_000):
        print(f"row {row}", file=log)  # <- stuck here


training.run(print_table)
