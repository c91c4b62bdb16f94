"""The first epoch fills a shuffle buffer from a slow source for minutes before its first batch; then it trains."""

import threading
import time
from collections.abc import Iterator

import pace
import tf_training as training

BUFFER = 800


def read_record(index: int) -> None:
    if index == BUFFER // 2 and pace.strikes(0):
        threading.Event().wait()  # <- stuck here
    time.sleep(args.fill_s / BUFFER)
    sum(range(20_000))  # to decode it takes a little


def records() -> Iterator[training.Example]:
    for index, example in enumerate(training.numbers()):
        if index < BUFFER:
            read_record(index)
        yield example


args = pace.arguments(fill_s=330.0, steps=60, step_s=3.0)
strategy = training.workers()
model = training.Model(strategy)
iterator = training.iterate(training.batches(training.dataset(records).shuffle(BUFFER), strategy), strategy)
for step in range(args.steps):
    model.step(iterator)
    time.sleep(pace.uneven(args.step_s, 0.2, step))
