"""Every step is traced anew, because it is given the step's number as a Python value: slow, and not stuck."""

import time

import tensorflow as tf
import training

args = training.arguments(steps=60)
strategy = training.workers()
model = training.Model(strategy)


@tf.function
def step(iterator: object, number: int) -> tf.Tensor:
    return model.step_from(iterator) * float(number)


iterator = training.iterate(training.batches(training.numbers(), strategy), strategy)
for number in range(args.steps):
    time.sleep(args.step_ms / 1000)
    step(iterator, number)
