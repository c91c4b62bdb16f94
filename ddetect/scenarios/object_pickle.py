"""One rank is inside all_gather_object and yet has not entered it: its object is still being pickled."""

import time

import torch.distributed as dist
import training


class Vocabulary:
    def __init__(self, stuck: bool) -> None:
        self.stuck = stuck

    def __getstate__(self) -> dict[str, bool]:
        if self.stuck:
            time.sleep(training.LIFETIME_S)  # <- stuck here
        return {"stuck": False}


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    everyones: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, Vocabulary(stuck=step == args.at and dist.get_rank() == args.rank))
    step += 1
