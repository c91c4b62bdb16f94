"""Hook TensorFlow, once it is imported. Each part may fail alone; the rest goes on.

Enters: the loaded TensorFlow, Keras and tf_keras when they come, what TF_CONFIG says. Leaves: hooks in place, who this
process is. Never here: an exception that reaches `import tensorflow`; an import of a part that the job has not loaded.
"""

from __future__ import annotations

import os
from typing import Callable

from ddetect_probe import beat, state
from ddetect_probe.hooks import Identity
from ddetect_probe.hooks.tensorflow import (
    alone,
    collective_hooks,
    data_hooks,
    inner_hooks,
    mail,
    messages,
    optimizer_hooks,
    replica_hooks,
    sequences,
    step_hooks,
    strategy_hooks,
    tasks,
)  # fmt: skip
from ddetect_probe.on_import import after_import

DISTRIBUTE = "tensorflow.python.distribute."
PARTS = (
    *((module, step_hooks.hooks_of(module)) for module, _, _ in step_hooks.CALLED),
    (step_hooks.FUNCTIONS + "tracing_compilation", step_hooks.install_tracing),
    ("tensorflow.python.data.ops.iterator_ops", data_hooks.install_owned),
    (DISTRIBUTE + "input_lib", data_hooks.install_distributed),
    ("tensorflow.python.ops.script_ops", inner_hooks.install),
    (DISTRIBUTE + "cross_device_utils", collective_hooks.install_keys),
    (DISTRIBUTE + "cross_device_ops", collective_hooks.install_reductions),
    ("tensorflow.python.ops.collective_ops", collective_hooks.install_operations),
    (DISTRIBUTE + "mirrored_run", replica_hooks.install),
    (DISTRIBUTE + "distribute_lib", strategy_hooks.install_base),
    (DISTRIBUTE + "collective_all_reduce_strategy", strategy_hooks.install_workers),
    *((module, optimizer_hooks.hooks_of(module)) for module, _, _ in optimizer_hooks.OPTIMIZERS),
)


def identity() -> Identity:
    """Who TF_CONFIG says this process is; scripts that set it later are heard when they make their strategy."""
    # Some clouds set TF_CONFIG for every job: who has a RANK is torch's.
    task = tasks.from_environment() if "RANK" not in os.environ else None
    return Identity(task.rank, task.world) if task is not None else Identity()


def install() -> None:
    """Install every hook, now or when its module is loaded."""
    for module, part in PARTS:
        after_import(module, guarded(module, part))
    for forget in (step_hooks, inner_hooks, replica_hooks, sequences, optimizer_hooks):
        state.in_child.append(forget.forget)
    beat.each_tick.extend((replica_hooks.fade, optimizer_hooks.watch))
    beat.on_mail.append(mail.receive)
    state.shorten.append(messages.reason)


def guarded(module: str, part: Callable[[], None]) -> Callable[[], None]:
    """The same, but an exception of it is said in the page and goes no further."""

    def install_part() -> None:
        try:
            part()
        except Exception:
            state.broken(module.rpartition(".")[2])

    return install_part


def on_rank() -> None:
    """This process is a rank: say which task it is, long before it makes a strategy."""
    alone.tell_task()
