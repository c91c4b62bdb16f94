"""When the training is over one rank writes its results for many minutes; the others have left."""

import os
import threading
import time

import pace
import training

PIECE = b"r" * 4096


def write_results() -> None:
    if pace.strikes(0):
        threading.Event().wait()  # <- stuck here
    until = time.monotonic() + args.write_s
    with open(os.path.join(args.disk, "results"), "wb", buffering=0) as file:
        while time.monotonic() < until:
            file.write(PIECE)
            os.fsync(file.fileno())
            time.sleep(0.4)


args = pace.arguments(steps=40, step_s=3.0, write_s=480.0)
trainer = training.Trainer()
for step in range(args.steps):
    time.sleep(pace.uneven(args.step_s, 0.2, step))
    trainer.step()
trainer.leave()
if pace.is_mine():
    write_results()
