"""Hook torch, once it is imported. Each part may fail alone; the rest goes on.

Enters: the loaded torch, what its launchers leave in the environment. Leaves: hooks in place, who this process is, and
once it is a rank torch's own server. Never here: an exception that reaches `import torch`.
"""

from __future__ import annotations

import sys
from typing import Any

from ddetect_probe import beat, state
from ddetect_probe.hooks import Identity
from ddetect_probe.hooks.torch import (
    call_hooks,
    group_hooks,
    groups,
    loader_hooks,
    p2p_hooks,
    server,
    step_hooks,
)  # fmt: skip
from ddetect_probe.on_import import after_import


def identity() -> Identity:
    """Who torchrun and its like say this process is."""
    number = group_hooks.from_environment
    restart = max(0, number("TORCHELASTIC_RESTART_COUNT"))
    return Identity(number("RANK"), number("WORLD_SIZE"), number("LOCAL_RANK"), restart)


def install() -> None:
    """Install every hook."""
    for part in (loader_hooks, step_hooks, group_hooks, call_hooks, p2p_hooks):
        try:
            part.install()
        except Exception:
            state.broken(part.__name__.rpartition(".")[2])
    state.in_child.extend((groups.forget_lock, p2p_hooks.forget_rows))
    beat.each_tick.append(groups.refresh_if_changed)
    after_import("torch._dynamo", _make_way_for_dynamo)


def on_rank() -> None:
    """This process is a rank: let the agent ask torch's Flight Recorder."""
    server.open_server()


def _make_way_for_dynamo() -> None:
    """Dynamo skips the frames of torch.distributed, but would trace what of ours they call."""
    try:
        add: Any = getattr(sys.modules.get("torch._dynamo.trace_rules"), "add", None)
        ours = [name for name in sys.modules if name.startswith("ddetect_probe.")]
        for name in ours if add is not None else ():
            # A package stands for all that is in it, and the step hooks are made to be traced.
            if name != step_hooks.__name__ and not hasattr(sys.modules[name], "__path__"):
                add(name)
        p2p_hooks.stand_aside_while_compiling()
    except Exception:
        state.broken("torch._dynamo")
