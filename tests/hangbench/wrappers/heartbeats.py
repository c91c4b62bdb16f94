"""RankMonitorClient in every rank: a heartbeat after each optimizer step.

A program without an optimizer (HANGBENCH_BEAT=collectives) has it after each collective or message that completed,
where its author would have put it: once or so in each round of the loop.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient
from program import run_program
from torch.optim.optimizer import register_optimizer_step_post_hook

CALLS = (
    "all_reduce", "all_gather", "all_gather_object", "all_to_all", "barrier", "broadcast", "broadcast_object_list",
    "gather", "gather_object", "monitored_barrier", "recv", "reduce", "reduce_scatter", "scatter", "send",
)  # fmt: skip

client = RankMonitorClient()
client.init_workload_monitoring()


def then_beat(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        client.send_heartbeat()
        return result

    return called


if os.environ["HANGBENCH_BEAT"] == "collectives":
    for name in CALLS:
        setattr(dist, name, then_beat(getattr(dist, name)))
else:
    register_optimizer_step_post_hook(lambda *_: client.send_heartbeat())
run_program()
client.shutdown_workload_monitoring()
