"""A queue that feeds the dataset runs dry; the step of all replicas waits for it inside the graph, in C++."""

import starving
import training

args = training.arguments()
strategy = training.mirrored(args.replicas)
training.train(args, examples=starving.examples(args.at * training.batch_size(strategy)), strategy=strategy)
