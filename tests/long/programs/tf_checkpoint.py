"""The chief alone writes checkpoints, shard by shard to a slow disk; the other worker waits in its step."""

import fcntl
import os
import time

import pace
import tensorflow as tf
import tf_training as training

SHARDS = 60


def write_shard(shard: int, number: int) -> None:
    path = os.path.join(args.disk, "shard")
    if shard == SHARDS // 3 and pace.strikes(number):
        with open(path, "a") as held, open(path, "a") as again:
            fcntl.flock(held, fcntl.LOCK_EX)
            fcntl.flock(again, fcntl.LOCK_EX)  # <- stuck here
    tf.io.write_file(path, tf.io.serialize_tensor(tf.random.uniform((20_000,))))
    with open(path, "rb") as written:
        os.fsync(written.fileno())
    time.sleep(args.save_s / SHARDS)  # what the disk lets us wait for


def save_checkpoint(number: int) -> None:
    for shard in range(SHARDS):
        write_shard(shard, number)


args = pace.arguments(rounds=3, steps=20, step_s=3.0, save_s=100.0)
strategy = training.workers()
model = training.Model(strategy)
iterator = training.iterate(training.batches(training.dataset(), strategy), strategy)
for number in range(args.rounds):
    for step in range(args.steps):
        model.step(iterator)
        time.sleep(pace.uneven(args.step_s, 0.2, step))
    if pace.is_mine():
        save_checkpoint(number)
model.step(iterator)
