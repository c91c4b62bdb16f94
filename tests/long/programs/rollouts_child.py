"""Reinforcement learning with a simulator as a child of each rank, which computes lightly; then a few steps."""

import os
import subprocess
import sys

import pace
import training


def collect_episodes(number: int) -> None:
    seconds = args.hang if pace.strikes(number) else pace.uneven(args.rollout_s, args.spread, number)
    simulator.stdin.write(f"{seconds}\n")
    simulator.stdin.flush()
    simulator.stdout.readline()  # <- stuck here


args = pace.arguments(rounds=7, rollout_s=120.0, spread=0.3, steps=3, hang="wait")
simulator = subprocess.Popen(
    [sys.executable, os.path.join(os.path.dirname(__file__), "working_child.py")],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    preexec_fn=pace.die_with_parent,
)
trainer = training.Trainer()
for number in range(args.rounds):
    collect_episodes(number)
    for _ in range(args.steps):
        trainer.step()
trainer.leave()
simulator.stdin.close()
simulator.wait()
