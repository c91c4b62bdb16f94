"""Which deaths only follow from another: by what they say, because the launcher ended the rest, or as somebody asked.

Which words tell of a peer, the framework knows. Never here: who is named (fault.py, unseen.py).
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Sequence

from ddetect.correlate.rules.abort_calls import ABORTED, is_aborted_inside, with_call
from ddetect.correlate.scene import Scene
from ddetect.frameworks.framework import Framework
from ddetect.model import UNKNOWN, Departure, Gone, Raised, Role

ENDED_BY_LAUNCHER = int(signal.SIGTERM)
SEEN_LATE_S = 1.5
"""A process that vanished is seen only when the agent next looks; an exception wrote its own time."""
_ASKED = re.compile(r"(?:[\w.]+\.)?(KeyboardInterrupt|SignalException)\b")
_OURS = re.compile(r"\baborted by: ddetect: ")
"""An exception that carries the sentence we sent (--on-hang=stop), as who aborts with it says it: our own wish."""
_ASKED_BY = int(signal.SIGINT)
"""Endings that somebody asked for, by their word or by their signal: the only list of them."""


def asks_to_end(exception: str) -> bool:
    """Whether these last words tell of somebody's wish."""
    return _ASKED.match(exception) is not None or _OURS.search(exception) is not None


def was_asked(gone: Gone) -> bool:
    """Whether somebody wanted this process to end. Not SIGTERM: a launcher ends the peers of a fault with it."""
    if gone.how is Departure.RAISED:
        return asks_to_end(gone.exception)
    return gone.how is Departure.VANISHED and gone.signal == _ASKED_BY


def is_consequence(gone: Gone, framework: Framework) -> bool:
    """Whether this death only follows from another rank's, or from a user's wish."""
    if gone.how is not Departure.RAISED:
        return was_asked(gone) or is_aborted_inside(gone, framework) or _aborted_of_a_peer(gone, framework)
    return asks_to_end(gone.exception) or tells_of_a_peer(gone, framework)


def _aborted_of_a_peer(gone: Gone, framework: Framework) -> bool:
    """Whether a watchdog aborted it because others went or did not come."""
    return (
        gone.how is Departure.VANISHED
        and gone.signal == ABORTED
        and framework.tells_of_a_peer(gone.exception, "")
    )


def is_unseen(gone: Gone) -> bool:
    """Whether nobody saw what ended it: neither a signal nor an exit code is known."""
    return gone.how is Departure.VANISHED and not gone.signal and gone.code == UNKNOWN


def only_exited(gone: Gone) -> bool:
    """Whether it exited with a code that tells of an error, and raised nothing that its probe saw."""
    if gone.code in (UNKNOWN, 0):
        return False
    return gone.how is Departure.VANISHED or gone.exception == f"SystemExit: {gone.code}"


def tells_of_a_peer(told: Gone | Raised, framework: Framework) -> bool:
    """Whether the framework says that a peer went or did not come."""
    return framework.tells_of_a_peer(told.exception, told.where.file if told.where is not None else "")


def saw_a_death(gone: Gone, framework: Framework) -> bool:
    """Whether this rank died because a connection was closed at the other end."""
    return is_consequence(gone, framework) and framework.saw_a_death(gone.exception)


def origins(deaths: Sequence[Gone], framework: Framework) -> list[Gone]:
    """Those that follow from no other: not by what they say, and not because the launcher ended the rest.

    Who got SIGTERM after another rank had raised was ended for it, and so was, as far as anybody knows, who vanished
    then without a trace. Unless that rank saw a peer die: then only a death that came later than we may be late in
    noticing it is excused. Who was aborted died of no death: the rest was ended for it, in whatever order we saw that.
    """
    ended_since = max((_excuses_since_s(one, framework) for one in deaths), default=-math.inf)
    return [
        gone
        for gone in deaths
        if not is_consequence(gone, framework)
        and not ((is_ended_by_launcher(gone) or is_unseen(gone)) and ended_since > gone.age_s)
    ]


def _excuses_since_s(one: Gone, framework: Framework) -> float:
    """Up to which age the end of others may follow from this death."""
    if one.how is Departure.RAISED:
        return one.age_s - (SEEN_LATE_S if saw_a_death(one, framework) else 0.0)
    return one.age_s + SEEN_LATE_S if is_aborted_inside(one, framework) else -math.inf


def is_ended_by_launcher(gone: Gone) -> bool:
    """Whether it died as a launcher ends ranks."""
    return gone.how is Departure.VANISHED and gone.signal == ENDED_BY_LAUNCHER


def deaths_of(scene: Scene) -> list[Gone]:
    """Ranks that ended as they should not; of one that was aborted with the call it was in, whoever tells that."""
    return [
        with_call(scene, gone) if gone.signal == ABORTED else gone for gone in scene.departed if gone.is_death
    ]


def last_words(scene: Scene) -> dict[int, Raised]:
    """What ranks raised that are still on their way out. It ends them: the newest look need not show it."""
    return {rank: raised for rank, raised in _raised(scene).items() if raised.fatal}


def waited_in_vain(scene: Scene) -> frozenset[int]:
    """Ranks that raised what tells of a peer, in all or in the thread that trained: victims, also if they live on."""
    told = _raised(scene).items()
    return frozenset(rank for rank, raised in told if tells_of_a_peer(raised, scene.framework))


def _raised(scene: Scene) -> dict[int, Raised]:
    """The last exception that nobody caught, of each rank that has one and lives."""
    found: dict[int, Raised] = {}
    for sample in scene.snapshot.samples:
        for number, sighting in enumerate(sample.sightings):
            raised = sighting.raised
            if raised is not None:
                rows = (sample.sighting == number) & (sample.role == Role.RANK) & (sample.rank >= 0)
                found.update((rank, raised) for rank in sample.rank[rows].tolist())
    return {rank: raised for rank, raised in found.items() if rank not in scene.gone_ranks}
