"""One rank spreads work over a multiprocessing pool of its own, one task of which never returns."""

import multiprocessing
import time

import torch.distributed as dist
import training


def tokenize(document: int) -> int:
    if document == 3:
        time.sleep(training.LIFETIME_S)  # <- stuck here
    return document


def tokenize_all() -> None:
    pool.map(tokenize, range(4), chunksize=1)


args = training.arguments()
pool = multiprocessing.get_context("fork").Pool(2, training.die_with_parent)
dist.init_process_group("gloo")
training.train(args, tokenize_all)
