"""A healthy job of several workers in a loop of their own: a slow first step, now and then an evaluation by one worker.

It ends by itself with exit code 0 after `--steps` steps.
"""

import time

import tensorflow as tf
import training


def evaluate(seconds: float) -> None:
    """It alone looks at the validation set, while the others wait for it in the next step."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tf.linalg.matmul(tf.ones((64, 64)), tf.ones((64, 64)))
        time.sleep(0.02)


args = training.arguments(steps=160, evaluate_every=40, evaluate_s=5.0)
strategy = training.workers()
model = training.Model(strategy)
step = tf.function(model.step_from)
iterator = training.iterate(training.batches(training.numbers(), strategy), strategy)
for number in range(args.steps):
    time.sleep(args.step_ms / 1000 * (20 if number == 0 else 1))
    step(iterator)
    if training.my_rank() == args.rank and number % args.evaluate_every == args.evaluate_every - 1:
        evaluate(args.evaluate_s)
