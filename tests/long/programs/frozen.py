"""Plain steps of two seconds; somebody else freezes the job, or the whole host, for minutes, and lets it go on."""

import threading
import time

import pace
import training

metrics = threading.Lock()


def log_metrics() -> None:
    metrics.acquire()  # <- stuck here


args = pace.arguments(steps=150, step_s=2.0)
trainer = training.Trainer()
for step in range(args.steps):
    time.sleep(pace.uneven(args.step_s, 0.2, step))
    if pace.strikes(step):
        metrics.acquire()
        log_metrics()
    trainer.step()
trainer.leave()
