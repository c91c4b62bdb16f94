"""The frameworks that can be hooked: a folder each, and what must be known of it before it is imported.

Enters: nothing. Leaves: `FRAMEWORKS`; another is handed over as an argument. Never here: an import (every Python of the
job loads this, also those that never import a framework).

The module that `Framework.hooks` names has
    identity() -> Identity   who the launcher says this process is,
    install()                hooks the framework, which has just been imported; once per interpreter,
    on_rank()                this process is a rank, or has just become one; more than once.
Its hooks write lane 0 through `lane.enter_phase`, `lane.leave_phase` and `lane.user_step`, other lanes through `lanes`,
call `state.become_rank` and `state.decide_alone` with what they learn, and say `state.broken` when they switch
themselves off. None may raise into the job.
"""

from __future__ import annotations


class Framework:
    """One of them: its `name` in the page, the `module` to wait for, the module with the `hooks`."""

    def __init__(
        self,
        name: str,
        module: str,
        hooks: str,
        launcher_modules: tuple[str, ...] = (),
        launcher_programs: tuple[str, ...] = (),
        calls_us: bool = False,
    ) -> None:
        self.name = name
        self.module = module
        self.hooks = hooks
        self.launcher_modules = launcher_modules  # run as `python -m`, they start ranks and are none
        self.launcher_programs = launcher_programs
        self.calls_us = calls_us  # at the end of its own import, through an entry point


class Identity:
    """Who a process is, as far as its launcher says; -1 is unknown."""

    def __init__(self, rank: int = -1, world: int = -1, local_rank: int = -1, restart: int = 0) -> None:
        self.rank = rank
        self.world = world
        self.local_rank = local_rank
        self.restart = restart


FRAMEWORKS = (
    Framework(
        "torch",
        "torch",
        "ddetect_probe.hooks.torch",
        launcher_modules=(
            "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
            "deepspeed.launcher.launch", "deepspeed.launcher.runner",
        ),
        launcher_programs=("torchrun", "torchrun-script.py", "accelerate", "deepspeed"),
        calls_us=True,
    ),
    Framework("tensorflow", "tensorflow", "ddetect_probe.hooks.tensorflow"),
)  # fmt: skip
