"""One worker has less to do: it comes to the end of its program while the others go on, and wait for it to add with.

Not the leader: the others would lose their connection with it, and not wait at all.
"""

import training

args = training.arguments()
steps = args.at if training.my_rank() == (args.rank or 1) else 1_000_000
training.train(args, steps=steps)
