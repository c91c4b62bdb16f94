"""Hook torch, once it is imported. Each part may fail alone; the rest goes on.

Enters: the loaded torch. Leaves: hooks in place. Never here: an exception that reaches `import torch`.
"""

from __future__ import annotations

from ddetect_probe import beat, call_hooks, group_hooks, groups, loader_hooks, p2p_hooks, state, step_hooks

_done = False


def install() -> None:
    """Install every hook, once per interpreter."""
    global _done
    if _done:
        return
    _done = True
    for part in (loader_hooks, step_hooks, group_hooks, call_hooks, p2p_hooks):
        try:
            part.install()
        except Exception:
            state.broken(part.__name__)
    state.in_child.extend((groups.forget_lock, p2p_hooks.forget_rows))
    beat.each_tick.append(groups.refresh_if_changed)
