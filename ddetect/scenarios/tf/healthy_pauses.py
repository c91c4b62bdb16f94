"""A healthy job of several replicas in one process that pauses for evaluations elsewhere and for checkpoints."""

import os
import tempfile
import time

import tensorflow as tf
import training


def evaluate_remotely(seconds: float) -> None:
    """Another machine works: nothing of this process moves."""
    time.sleep(seconds)


def save_checkpoint(model: training.Model, seconds: float) -> None:
    """Shard by shard to a slow disk: bytes move, steps do not."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        saver = tf.train.Checkpoint(weights=model.weights, moments=tf.Variable(tf.zeros((2**16,))))
        while time.monotonic() < until:
            saver.write(os.path.join(folder, "shard"))
            time.sleep(0.2)


args = training.arguments(steps=200, evaluate_every=40, evaluate_s=4.0, checkpoint_at=100, checkpoint_s=6.0)
strategy = training.mirrored(args.replicas)
model = training.Model(strategy)
step = tf.function(model.step_on)
data = training.iterate(training.batches(training.numbers(), strategy), strategy)
for number, batch in zip(range(args.steps), data, strict=False):
    time.sleep(args.step_ms / 1000)
    step(batch)
    if number % args.evaluate_every == args.evaluate_every - 1:
        evaluate_remotely(args.evaluate_s)
    if number == args.checkpoint_at:
        save_checkpoint(model, args.checkpoint_s)
