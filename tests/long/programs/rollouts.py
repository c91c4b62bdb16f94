"""Reinforcement learning: each rank asks a simulator far away for episodes, which takes minutes; then a few steps."""

import urllib.request

import pace
import training


def collect_episodes(number: int) -> None:
    seconds = pace.FOREVER_S if pace.strikes(number) else pace.uneven(args.rollout_s, args.spread, number)
    where = f"http://{args.store}/late?after_s={seconds}&bytes=2000"
    with urllib.request.urlopen(where) as answer:  # <- stuck here
        answer.read()


args = pace.arguments(rounds=9, rollout_s=145.0, spread=0.38, steps=3)
trainer = training.Trainer()
for number in range(args.rounds):
    collect_episodes(number)
    for _ in range(args.steps):
        trainer.step()
trainer.leave()
