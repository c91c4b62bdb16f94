"""What one event of the probe costs, in nanoseconds: the hooks alone, against a call that does nothing.

Enters: nothing (a page in a temporary folder, a process group of one). Leaves: `measure()`, and a table when run as a
program. Never here: torch's own time; both sides of a difference call the same torch code, or none.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from time import thread_time_ns
from typing import Any

ROUNDS = 100  # short ones, so that some fall into a quiet moment of a busy machine
CALLS = 1000
SUM = object()  # stands for ReduceOp.SUM


def best_ns(call: Callable[[], object]) -> float:
    """Nanoseconds per call of the quietest round: noise of the machine only ever adds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = thread_time_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (thread_time_ns() - begin) / CALLS)
    return best


def measure() -> dict[str, float]:
    """Nanoseconds per event, without what an empty function of the same shape costs."""
    import torch
    import torch.distributed as dist
    from ddetect_probe import page, splice, state
    from ddetect_probe.hooks.torch import call_hooks, groups, loader_hooks, p2p_hooks, step_hooks

    with tempfile.TemporaryDirectory() as run:
        os.mkdir(os.path.join(run, "pages"))
        state.open_page(run, page.ROLE_RANK)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            groups.refresh()
            call_hooks._REDUCE[id(SUM)] = 1
            tensor = torch.zeros(1)
            nothing = best_ns(_empty)
            costs: dict[str, float] = {}
            slots = state.slots
            costs["one_slot"] = (
                best_ns(lambda: slots.__setitem__(page.S_LOSS, 1)) - nothing
            )  # the machine's own pace

            def spliced(function: Callable[..., Any], *hooks: Any, **more: Any) -> float:
                plain = best_ns(lambda: function(tensor))
                if not splice.splice(function, *hooks, **more):
                    raise RuntimeError(f"{function.__name__} could not be hooked")
                return best_ns(lambda: function(tensor)) - plain

            costs["dataloader_next"] = spliced(_next, loader_hooks.enter_next, loader_hooks.leave_next)
            costs["loader_fetch"] = spliced(
                _fetch, loader_hooks.enter_fetch, loader_hooks.leave_fetch, ("index",)
            )
            before_step, after_step = step_hooks.make_hooks(torch.compiler.is_dynamo_compiling)
            costs["optimizer_step"] = (
                best_ns(lambda: before_step(None, (), {}))
                + best_ns(lambda: after_step(None, (), {}))
                - 2 * nothing
            )
            costs["collective_call"] = spliced(_gathers, call_hooks.enter_call, call_hooks.leave_call)
            reducing = call_hooks.enter_of(call_hooks.ALL_REDUCE, False, True)
            costs["all_reduce_call"] = spliced(
                _reduces, reducing, call_hooks.leave_call, ("group", "tensor", "op")
            )
            rooted = call_hooks.enter_of(call_hooks.BROADCAST, True, False)
            costs["broadcast_call"] = spliced(
                _broadcasts, rooted, call_hooks.leave_call, ("group", "tensor", "src", "group_src")
            )
            costs["isend_call"] = spliced(
                _sends, p2p_hooks.enter_send, p2p_hooks.leave_p2p, ("group", "tag", "dst", "group_dst"),
                result=p2p_hooks.opened,
            )  # fmt: skip
            costs["work_wait"] = _wait_ns(dist.all_reduce(tensor, async_op=True))
            return costs
        finally:
            dist.destroy_process_group()


def _wait_ns(work: Any) -> float:
    from ddetect_probe.hooks.torch import p2p_hooks

    plain = best_ns(lambda: work.wait())
    owner, original = type(work), type(work).wait
    owner.wait = p2p_hooks.Wait(owner, original)
    try:
        return best_ns(lambda: work.wait()) - plain
    finally:
        owner.wait = original


def _empty() -> None: ...


def _next(tensor: Any) -> None:
    return None


def _fetch(index: Any) -> None:
    return None


def _gathers(tensor: Any) -> None:
    return None


def _reduces(tensor: Any, op: Any = SUM, group: Any = None) -> None:
    return None


def _broadcasts(tensor: Any, src: Any = 0, group: Any = None, group_src: Any = None) -> None:
    return None


def _sends(tensor: Any, dst: Any = 0, group: Any = None, tag: int = 0, group_dst: Any = None) -> None:
    return None


if __name__ == "__main__":
    for name, cost in measure().items():
        print(f"{name:20} {cost:7.0f} ns")
