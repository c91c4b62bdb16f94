"""What runs inside the rank: it writes what the rank is doing into one shared-memory page.

Enters: nothing the user has to say (`step()` and `pause()` are optional). Leaves: a page, a socket of torch's own
server and a faulthandler file in the run directory. Never here: a word on the job's output, an exception into
the job, anything but the standard library. Without `ddetect launch` both functions do nothing.
"""

from __future__ import annotations

__all__ = ["pause", "step"]


def step() -> None:
    """Say that one training step is done, for loops without a torch optimizer. From then on only this counts."""
    from ddetect_probe import lane

    lane.user_step()


class pause:  # lower case, because it reads as a verb
    """Say that the steps rest on purpose, for example while a checkpoint is written."""

    def __init__(self, name: str = "") -> None:
        """Remember what the pause is for."""
        self.name = name
        self._before = -1

    def __enter__(self) -> pause:
        from ddetect_probe import lane, page

        self._before = lane.enter_phase(page.PAUSED)
        return self

    def __exit__(self, *exception: object) -> None:
        from ddetect_probe import lane

        lane.leave_phase(self._before)
