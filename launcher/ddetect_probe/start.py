"""Begin: decide what this process is to the job, give it a page, and hook its framework.

Enters: the environment, the command line, the end of a framework's import. Leaves: a probe that runs, or nothing at
all. Called from the import hook (sitecustomize) and from a framework's entry point, whichever comes first; the second
call does nothing, and a second framework adds its hooks to the same page. Never here: an exception that reaches the
job; a page in a launcher, a resource tracker or a program that never imports a framework; a framework's own names.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, List, Sequence, Set

from ddetect_probe import ancestors, page, state
from ddetect_probe.hooks import FRAMEWORKS, Framework, Identity

_met: Set[str] = set()
_begun = False


def wanted() -> bool:
    """Whether this process belongs to a job that ddetect watches."""
    return bool(os.environ.get("DDETECT_RUN_DIR")) and os.environ.get("DDETECT_PROBE", "1") != "0"


def on_import(framework: Framework) -> None:
    """A framework has just been imported. Never raises."""
    global _begun
    if framework.name in _met:
        return
    _met.add(framework.name)
    try:
        if not wanted() or is_launcher(command_line(), (framework, *FRAMEWORKS)):
            return
        hooks: Any = import_module(framework.hooks)
        told: Identity = hooks.identity()
        first, _begun = not _begun, True
        if first:
            _begin(os.environ["DDETECT_RUN_DIR"], told)
        state.trains_with(framework.name, certain=False)
        hooks.install()
        state.on_rank.append(hooks.on_rank)
        if state.slots[page.S_ROLE] == page.ROLE_RANK:
            hooks.on_rank()
        elif state.undecided and told.rank >= 0:  # the first framework's launcher did not say it
            state.slots[page.S_RESTART] = told.restart
            state.become_rank(told.rank, told.world, told.local_rank)
    except Exception:
        state.broken(framework.name)


def command_line() -> List[str]:
    """The whole command line, options of Python included."""
    given = getattr(sys, "orig_argv", None)  # since Python 3.10
    if given:
        return list(given)
    with open("/proc/self/cmdline", "rb") as raw:
        return [part.decode("utf-8", "replace") for part in raw.read().split(b"\0")[:-1]]


def is_launcher(command: List[str], frameworks: Sequence[Framework] = FRAMEWORKS) -> bool:
    """Whether this is torchrun and its like, which start ranks and are none."""
    modules = {name for framework in frameworks for name in framework.launcher_modules}
    programs = {name for framework in frameworks for name in framework.launcher_programs}
    for position, word in enumerate(command[1:], 1):
        if word == "-m":
            module = command[position + 1] if position + 1 < len(command) else ""
            return module in modules
        if word in ("-c", "-"):
            return False
        if not word.startswith("-") and command[position - 1] not in ("-W", "-X"):
            files = tuple("/" + name.replace(".", "/") + ".py" for name in modules)
            return os.path.basename(word) in programs or word.endswith(files)
    return os.path.basename(command[0]) in programs if command else False


def _begin(folder: str, told: Identity) -> None:
    from ddetect_probe import beat, endings, faulthandler_, homes, lane

    ancestor, its_rank = ancestors.rank_of_ancestor(folder)
    # RANK is inherited: a helper that a rank starts is not a second rank of that number.
    role = page.ROLE_CHILD if ancestor else page.ROLE_RANK if told.rank >= 0 else page.ROLE_OTHER
    state.open_page(folder, role)
    slots = state.slots
    if ancestor:
        slots[page.S_PARENT] = ancestor
        state.set_rank(its_rank, told.world)
    elif told.rank >= 0:
        state.set_rank(told.rank, told.world, told.local_rank)
    state.undecided = role == page.ROLE_OTHER
    slots[page.S_RESTART] = told.restart
    lane.starting()
    state.text("script", state.script())
    state.in_child.extend((beat.forget, faulthandler_.again_in_child))
    state.follow_forks()
    endings.watch_endings()
    faulthandler_.register()
    beat.each_tick.extend((faulthandler_.withdraw_if_replaced, lane.arbitrate, homes.tell))
    state.on_rank.append(beat.start)
    if role != page.ROLE_CHILD:
        beat.start()
