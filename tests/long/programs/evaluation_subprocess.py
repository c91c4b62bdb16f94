"""One rank has a program of another team evaluate, silently and for minutes; the others wait in the next step."""

import os
import subprocess
import sys
import time

import pace
import training


def evaluate(number: int) -> None:
    seconds = args.hang if pace.strikes(number) else str(pace.uneven(args.evaluate_s, 0.2, number))
    program = [sys.executable, os.path.join(os.path.dirname(__file__), "working_child.py"), seconds]
    subprocess.run(program, check=True, preexec_fn=pace.die_with_parent)  # <- stuck here


args = pace.arguments(rounds=3, steps=15, step_s=3.0, evaluate_s=200.0, hang="wait")
trainer = training.Trainer()
for number in range(args.rounds):
    for step in range(args.steps):
        time.sleep(pace.uneven(args.step_s, 0.2, step))
        trainer.step()
    if pace.is_mine():
        evaluate(number)
trainer.step()
trainer.leave()
