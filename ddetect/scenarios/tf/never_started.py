"""A job of which one worker was never started (`start_workers.py --without`); the others wait for it in the strategy."""

import training

training.train(training.arguments())
