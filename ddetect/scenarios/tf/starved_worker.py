"""The queue that feeds one worker's dataset runs dry: it waits for data inside its step, the others for its gradients.

All of them are in the same line of Python, and below it in C++: who cannot see more must not name anybody.
"""

import starving
import training

args = training.arguments()
strategy = training.workers()
struck = training.my_rank() == args.rank
limit = args.at * training.batch_size(strategy) if struck else 10**9
training.train(args, examples=starving.examples(limit), strategy=strategy)
