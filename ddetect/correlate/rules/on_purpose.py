"""Somebody wanted the job to end: then what died of it is no fault. A Scene enters, a claim leaves, or nothing.

A wish is an ending that was asked for (consequence.py has the list), or SIGTERM to all ranks in one moment. A fault
that is clearly older than the wish stays a fault, and a job that outlived the wish is judged as before.
Never here: whether that is worth an alarm (the coordinator decides it).
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence

from ddetect.correlate.rules.consequence import (
    SEEN_LATE_S,
    asks_to_end,
    deaths_of,
    last_words,
    saw_a_death,
    was_asked,
)
from ddetect.correlate.scene import Scene
from ddetect.model import UNKNOWN, Departure, Gone
from ddetect.model.claims import OnPurpose

ENDING_SIGNALS = frozenset({int(signal.SIGTERM), int(signal.SIGHUP), int(signal.SIGQUIT), int(signal.SIGINT)})
"""What people and schedulers end jobs with. Not SIGKILL: the kernel ends whole groups with it when memory is out."""
_NOT_SEEN = 0
_SHELLS = 128

OUTLIVED_S = 60.0
"""What dies this long after somebody asked for an end died of something else."""


def ended_on_purpose(scene: Scene, workers: Sequence[Gone]) -> OnPurpose | None:
    """How somebody ended the job; nothing if nobody did. `workers`: loader workers that died, and are missed."""
    deaths = deaths_of(scene)
    if not deaths:
        return None
    asked = {gone.rank: gone.age_s for gone in deaths if was_asked(gone)}
    asked |= {
        rank: _leaves_since_s(scene, rank)
        for rank, raised in last_words(scene).items()
        if asks_to_end(raised.exception)
    }
    if not asked:
        return OnPurpose() if _all_were_ended(scene, deaths) else None
    others = [gone for gone in deaths if gone.rank not in asked] + list(workers)
    wish_s = max(asked.values())
    # A closed connection may be older: who was interrupted tears down first, and only then is it gone.
    fault_s = max(
        (gone.age_s for gone in others if not saw_a_death(gone, scene.framework)), default=-math.inf
    )
    if (
        fault_s > wish_s + SEEN_LATE_S
        or max((gone.age_s for gone in others), default=0.0) < wish_s - OUTLIVED_S
    ):
        return None
    return OnPurpose(tuple(sorted(asked)))


def _leaves_since_s(scene: Scene, rank: int) -> float:
    """How long it has been on its way out; without a page since ever."""
    at = scene.position(rank)
    age_s = float(scene.phase_age_s[at]) if at >= 0 else math.nan
    return math.inf if math.isnan(age_s) else age_s


def _all_were_ended(scene: Scene, deaths: list[Gone]) -> bool:
    """Whether all ranks that we know of, and more than one of several, were sent one ending signal in one moment.

    A launcher that is ended itself ends its ranks, and often waits for some before we can read of what they died: what
    is known must be the same signal, and known of one at least. A single process may be told to go by anybody.
    """
    if scene.live.any() or len(deaths) < len(scene.departed) or len(deaths) < min(2, scene.count_ranks):
        return False
    ages = [gone.age_s for gone in deaths]
    if max(ages) - min(ages) > SEEN_LATE_S or any(gone.how is not Departure.VANISHED for gone in deaths):
        return False
    known = {_ended_by(gone) for gone in deaths} - {_NOT_SEEN}
    return len(known) == 1 and known <= ENDING_SIGNALS


def _ended_by(gone: Gone) -> int:
    """The signal that ended it: a shell's exit code tells it too; _NOT_SEEN, or what is no signal, below 0."""
    if gone.signal:
        return gone.signal
    if gone.code == UNKNOWN:
        return _NOT_SEEN
    return gone.code - _SHELLS if gone.code > _SHELLS else -1
