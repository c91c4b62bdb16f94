"""One worker has less to do: it comes to the end of its program while the others go on; there is nobody to add with."""

import training

args = training.arguments()
steps = args.at if training.my_rank() == args.rank else 1_000_000
training.train(args, steps=steps)
