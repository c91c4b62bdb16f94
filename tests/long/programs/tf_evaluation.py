"""Every so many steps the chief evaluates alone, batch by batch, for minutes; the other worker waits in its step."""

import threading
import time

import pace
import tensorflow as tf
import tf_training as training

results = threading.Lock()


def score(batch: int, number: int) -> None:
    if batch == args.batches // 3 and pace.strikes(number):
        results.acquire()
        results.acquire()  # <- stuck here
    x = tf.fill((64, training.FEATURES), float(batch))
    tf.linalg.matmul(x, x, transpose_b=True)
    time.sleep(pace.uneven(args.batch_s, 0.3, batch))


def evaluate(number: int) -> None:
    for batch in range(args.batches):
        score(batch, number)


args = pace.arguments(rounds=3, steps=20, step_s=3.0, batches=25, batch_s=5.0)
strategy = training.workers()
model = training.Model(strategy)
iterator = training.iterate(training.batches(training.dataset(), strategy), strategy)
for number in range(args.rounds):
    for step in range(args.steps):
        model.step(iterator)
        time.sleep(pace.uneven(args.step_s, 0.2, step))
    if pace.is_mine():
        evaluate(number)
model.step(iterator)
