"""Begin: decide what this process is to the job, give it a page, and hook torch.

Enters: the environment, the command line, the end of `import torch`. Leaves: a probe that runs, or nothing at all.
Called from the import hook (sitecustomize) and from torch's entry point, whichever comes first; the second call does
nothing. Never here: an exception that reaches the job; a page in a launcher, a resource tracker or a program that
never imports torch.
"""

from __future__ import annotations

import os
import sys
from time import monotonic_ns
from typing import List, Tuple

from ddetect_probe import page, state

LAUNCHER_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "deepspeed.launcher.launch", "deepspeed.launcher.runner",
)  # fmt: skip
LAUNCHER_PROGRAMS = ("torchrun", "torchrun-script.py", "accelerate", "deepspeed")
_ANCESTORS = 8
_started = False


def wanted() -> bool:
    """Whether this process belongs to a job that ddetect watches."""
    return bool(os.environ.get("DDETECT_RUN_DIR")) and os.environ.get("DDETECT_PROBE", "1") != "0"


def on_torch() -> None:
    """Torch has just been imported. Never raises."""
    global _started
    if _started:
        return
    _started = True
    try:
        if wanted() and not is_launcher(command_line()):
            _begin(os.environ["DDETECT_RUN_DIR"])
    except Exception:
        state.broken("start")


def command_line() -> List[str]:
    """The whole command line, options of Python included."""
    given = getattr(sys, "orig_argv", None)  # since Python 3.10
    if given:
        return list(given)
    with open("/proc/self/cmdline", "rb") as raw:
        return [part.decode("utf-8", "replace") for part in raw.read().split(b"\0")[:-1]]


def is_launcher(command: List[str]) -> bool:
    """Whether this is torchrun and its like, which start ranks and are none."""
    for position, word in enumerate(command[1:], 1):
        if word == "-m":
            module = command[position + 1] if position + 1 < len(command) else ""
            return module in LAUNCHER_MODULES
        if word in ("-c", "-"):
            return False
        if not word.startswith("-") and command[position - 1] not in ("-W", "-X"):
            return os.path.basename(word) in LAUNCHER_PROGRAMS or word.endswith("torch/distributed/run.py")
    return os.path.basename(command[0]) in LAUNCHER_PROGRAMS if command else False


def rank_of_ancestor(folder: str) -> Tuple[int, int]:
    """(pid, rank) of the rank process this one descends from, (0, -1) if from none."""
    pid = os.getppid()
    for _ in range(_ANCESTORS):
        if pid <= 1:
            break
        try:
            seen = page.Page(os.path.join(folder, "pages", page.page_name(pid, page.start_ticks(pid))))
            header = seen.header()
            seen.close()
            if header[page.S_ROLE] != page.ROLE_OTHER:
                return pid, header[page.S_RANK]
        except (OSError, ValueError):
            pass
        pid = _parent_of(pid)
    return 0, -1


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _begin(folder: str) -> None:
    from ddetect_probe import beat, endings, faulthandler_, group_hooks, homes, server, torch_

    number = group_hooks.from_environment
    rank = number("RANK")
    ancestor, its_rank = rank_of_ancestor(folder)
    # RANK is inherited: a helper that a rank starts is not a second rank of that number.
    role = page.ROLE_CHILD if ancestor else page.ROLE_RANK if rank >= 0 else page.ROLE_OTHER
    state.open_page(folder, role)
    slots = state.slots
    if ancestor:
        slots[page.S_PARENT] = ancestor
        state.set_rank(its_rank, number("WORLD_SIZE"))
    elif rank >= 0:
        state.set_rank(rank, number("WORLD_SIZE"), number("LOCAL_RANK"))
    state.undecided = role == page.ROLE_OTHER
    slots[page.S_RESTART] = max(0, number("TORCHELASTIC_RESTART_COUNT"))
    state.mirror.phase = page.STARTING
    slots[state.LANE] = (monotonic_ns() & state.KEEP) | page.STARTING
    state.text("script", state.script())
    state.in_child.extend((beat.forget, faulthandler_.again_in_child))
    state.follow_forks()
    endings.watch_endings()
    faulthandler_.register()
    beat.each_tick += [faulthandler_.withdraw_if_replaced, homes.tell]
    torch_.install()
    group_hooks.on_becoming_rank.extend((beat.start, server.open_server))
    if role == page.ROLE_RANK:
        server.open_server()
    if role != page.ROLE_CHILD:
        beat.start()
