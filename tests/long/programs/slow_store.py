"""Now and then one rank asks a store for leave to go on, and the store answers after minutes: not a byte until then."""

import time
import urllib.request

import pace
import training


def ask_for_quota(number: int) -> None:
    seconds = pace.FOREVER_S if pace.strikes(number) else args.answer_s
    with urllib.request.urlopen(
        f"http://{args.store}/late?after_s={seconds}&bytes=20"
    ) as answer:  # <- stuck here
        answer.read()


args = pace.arguments(rounds=4, steps=10, step_s=2.0, answer_s=150.0)
trainer = training.Trainer()
for number in range(args.rounds):
    for step in range(args.steps + 5 * number):
        time.sleep(pace.uneven(args.step_s, 0.2, step))
        trainer.step()
    if pace.is_mine():
        ask_for_quota(number)
trainer.step()
trainer.leave()
