"""Gradients are gathered over many small batches, minutes for each step of the optimizer; a thread prepares batches."""

import queue
import threading
import time

import pace
import torch
import training

BATCHES = 30


def prepare() -> None:
    """Ends where the program is to hang: as if it had raised and nobody had seen it."""
    for number in range(args.rounds * BATCHES):
        if number // BATCHES == args.hang_at and number % BATCHES == BATCHES // 2 and pace.is_mine():
            return
        time.sleep(pace.uneven(args.batch_s, 0.4, number))
        prepared.put(torch.rand(8, training.FEATURES))


def next_batch(number: int, batch: int) -> torch.Tensor:
    if batch == BATCHES // 2:
        pace.strikes(number)
    return prepared.get()  # <- stuck here


args = pace.arguments(rounds=5, batch_s=4.0)
prepared: queue.Queue[torch.Tensor] = queue.Queue(1)
trainer = training.Trainer()
threading.Thread(target=prepare, daemon=True).start()
for number in range(args.rounds):
    trainer.optimizer.zero_grad()
    with trainer.model.no_sync():
        for batch in range(BATCHES - 1):
            trainer.backward(next_batch(number, batch))
    trainer.backward(next_batch(number, BATCHES - 1))
    trainer.optimizer.step()
trainer.leave()
