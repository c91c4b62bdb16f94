"""PyTorch, and what is built on it: torch.distributed, DDP, FSDP, its DataLoader; DeepSpeed, Megatron, Lightning.

Enters: stacks.json, once. Leaves: `TORCH`. Never here: torch itself.
"""

from __future__ import annotations

import re
from importlib import resources

from ddetect.frameworks.framework import CallNames, Framework
from ddetect.frameworks.general import GENERAL_PATTERNS
from ddetect.frameworks.patterns import parse_patterns
from ddetect.frameworks.torch.deaths import lost_workers, refuses_calls, saw_a_death, tells_of_a_peer
from ddetect.frameworks.torch.operations import agreement, has_everyone, on_device, operation
from ddetect.model import Group, Words

TORCH = Framework(
    name="torch",
    patterns=parse_patterns(
        resources.files("ddetect.frameworks.torch").joinpath("stacks.json").read_text(encoding="utf-8"),
        "torch/stacks.json",
    ).among(GENERAL_PATTERNS),
    operation=operation,
    agreement=agreement,
    on_device=on_device,
    has_everyone=has_everyone,
    tells_of_a_peer=tells_of_a_peer,
    saw_a_death=saw_a_death,
    refuses_calls=refuses_calls,
    lost_workers=lost_workers,
    native_call=re.compile(r"\bc10d::|\bgloo::|\bp?nccl[A-Z]"),  # DDP's reducer, a process group or its backend
    worker_loop=re.compile(r"(torch/utils/data|torchdata/stateful_dataloader)/.*:_worker_loop$"),
    # gloo's and NCCL's loops and watchdogs, the store, CUDA's own, and the server that we ask. Not those that work for
    # the job: pt_main_thread, pt_autograd_*, pt_data_worker, pt_data_pin.
    service_threads=re.compile(
        r"^(gloo_tcp_loop|pt_(gloo|nccl)_|pt_tcpstore|pt_elastic|pt_workerserver|NCCL|cuda[-\d])"
    ),
    hands_over=re.compile(r"/pin_memory\.py$"),
    calls=CallNames(
        file="torch/distributed/distributed_c10d.py",
        wrapper="torch/distributed/c10d_logger.py",
        peers={"send": "dst", "recv": "src"},
        roots={"broadcast": "src", "reduce": "dst", "gather": "dst", "scatter": "src"},
        rootless=frozenset(
            {
                "all_reduce", "barrier", "all_gather", "all_gather_into_tensor", "reduce_scatter",
                "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "all_gather_object",
            }
        ),
        default_group=Group("", "0", "default_pg"),
    ),
    words=Words(
        inside="torch.distributed",
        join="init_process_group",
        backward="backward (DDP's all_reduce)",
        backward_call="DDP's all_reduce (backward)",
        loader="its DataLoader",
        hands_over="pins memory",
        in_steps=("all_reduce", "reduce_scatter", "all_gather"),  # of DDP, of FSDP
        even_steps="drop_last, an even sampler, or DDP's join()",
        exchange="batch_isend_irecv",
        below="NCCL or gloo settings",
        starved="no loader worker of it was seen",
        recorder="recorder",
    ),
)  # fmt: skip
