"""A job of which one worker was never started (`start_workers.py --without`); the others wait for it to join."""

import training

training.train(training.arguments())
