"""Before the first step one rank tokenizes in a pool of processes for minutes; the others wait in a barrier."""

import multiprocessing
import threading
import time

import pace
import torch.distributed as dist
import training

PROCESSES = 2


def tokenize(part: int) -> int:
    """Computes a little, and reads a lot."""
    if part >= args.parts - PROCESSES and pace.strikes(0):  # all of them: while one works nothing is stuck
        threading.Event().wait()  # <- stuck here
    until, words = time.monotonic() + pace.uneven(args.part_s, 0.5, part), 0
    while time.monotonic() < until:
        words += len({word: word * 2 for word in range(40_000)})
        time.sleep(0.1)
    return words


def tokenize_corpus() -> None:
    with multiprocessing.get_context("fork").Pool(PROCESSES, pace.die_with_parent) as pool:
        pool.map(tokenize, range(args.parts), chunksize=1)  # <- stuck here


args = pace.arguments(parts=16, part_s=52.0, steps=30, step_s=4.0)
trainer = training.Trainer()
if pace.is_mine():
    tokenize_corpus()
dist.barrier()
for step in range(args.steps):
    time.sleep(pace.uneven(args.step_s, 0.2, step))
    trainer.step()
trainer.leave()
