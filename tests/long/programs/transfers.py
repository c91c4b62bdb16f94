"""Every so many steps one rank moves some megabytes to or from a store, in its main thread or in one that it waits for.

The line is slow: 2 kB/s, or 200 kB/s, for minutes. A hang is a store that goes silent in the middle.
"""

import http.client
import time
from concurrent.futures import ThreadPoolExecutor

import pace
import torch.distributed as dist
import training


def upload(size: int, stop_at: int) -> None:
    connection = http.client.HTTPConnection(args.store)
    connection.request("PUT", f"/slow?rate={args.rate}&silent_after={stop_at}", b"w" * size)  # <- stuck here
    connection.getresponse().read()  # <- stuck here


def download(size: int, stop_at: int) -> None:
    connection = http.client.HTTPConnection(args.store)
    connection.request("GET", f"/slow?rate={args.rate}&bytes={size}&silent_after={stop_at}")
    answer = connection.getresponse()
    answer.read()  # <- stuck here


def move(number: int) -> None:
    size = int(args.rate * pace.uneven(args.transfer_s, 0.15, number))
    way = upload if args.way == "up" else download
    # What is on the line, and in the buffers of both ends, still arrives: it is silent from the first second on.
    stop_at = 1 if pace.strikes(number) else size + 1
    if args.where == "thread":
        saver.submit(way, size, stop_at).result()
    else:
        way(size, stop_at)


args = pace.arguments(rounds=3, steps=15, step_s=3.0, transfer_s=150.0, rate=2000, way="up", where="thread")
saver = ThreadPoolExecutor(1)
trainer = training.Trainer()
for number in range(args.rounds):
    for step in range(args.steps):
        time.sleep(pace.uneven(args.step_s, 0.2, step))
        trainer.step()
    if pace.is_mine():
        move(number)
    dist.barrier()
trainer.leave()
