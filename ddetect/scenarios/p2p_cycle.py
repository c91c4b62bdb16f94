"""Two ranks each receive from the other before they send; the other ranks wait for both in all_reduce."""

import time

import torch
import torch.distributed as dist
import training


def exchange(peer: int, receive_first: bool) -> None:
    outgoing, incoming = torch.ones(8), torch.empty(8)
    if receive_first:
        dist.recv(incoming, src=peer)  # <- stuck here
        dist.send(outgoing, dst=peer)
    else:
        dist.send(outgoing, dst=peer)
        dist.recv(incoming, src=peer)


args = training.arguments()
dist.init_process_group("gloo")
rank = dist.get_rank()
pair = [args.rank, (args.rank + 1) % dist.get_world_size()]
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    dist.all_reduce(torch.ones(8))
    if rank in pair:
        exchange(peer=sum(pair) - rank, receive_first=step == args.at or rank == args.rank)
    step += 1
