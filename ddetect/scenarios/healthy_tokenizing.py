"""One rank tokenizes for a long while and writes what it has; the others wait at a barrier. Slow, not stuck."""

import tempfile
import time

import torch.distributed as dist
import training


def tokenize(seconds: float) -> None:
    """Work through documents, and write tokens as they come."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryFile() as cache:
        while time.monotonic() < until:
            tokens = bytes(sum(range(200)) % 251 for _ in range(20_000))
            cache.write(tokens * 8)
            cache.flush()


args = training.arguments(steps=30, tokenize_s=20.0)
dist.init_process_group("gloo")
for _corpus in ("pretraining", "instructions"):
    if dist.get_rank() == args.rank:
        tokenize(args.tokenize_s)
    dist.barrier()
    training.train(args, lambda: None, steps=args.steps)
dist.destroy_process_group()
