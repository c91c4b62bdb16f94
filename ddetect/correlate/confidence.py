"""How sure a finding is: the numbers, all of them, in one place.

A finding starts at its base and is multiplied for each weakness. They order findings and tell a reader how much to
trust one; nothing is decided by comparing a confidence with a threshold.
"""

from __future__ import annotations

DEAD = 0.97  # a process is gone: nothing to interpret
STOPPED = 0.97  # the kernel says T
CYCLE = 0.95
MISMATCH = 0.95
NEVER_ENTERED = 0.97  # the recorder was read and the rank is not in the operation
LEFT_EARLY = 0.97  # the same, and we know that it will not come
NEVER_JOINED = 0.95
ALONE = 0.8  # one process, nobody waits: only its own sighting speaks
ALL_ENTERED = 0.6
DEVICE = 0.5
UNTOLD = 0.3  # nobody is named

TIE = 0.9  # two sides, equally many: both are named
SEVERAL_CAUSES = 0.9  # equally strong findings of different causes: all are named, one cause stands for them
SAME_MOMENT = 0.5  # several died before anybody looked: one was first, and the launcher ended the rest
ABORT_UNTOLD = 0.8  # an abort inside an operation, and no word of why
END_UNSEEN = 0.6  # a process is gone, and nobody saw whether a signal or it itself ended it
BESIDE_A_DEATH = 0.5  # somebody died, and another who is not known to have died is named instead
PRESUMED = 0.7  # the recorder was not read; only stack or phase say that the rank is elsewhere
STACKS_ONLY = 0.8  # no recorder told anything at all
LINES_ONLY = 0.7  # the same operation from different lines: they may belong together all the same
GROUPS_UNTOLD = 0.5  # stacks show that ranks are in groups of their own, and not in which
NOBODY_WAITS = 0.65  # ranks that stand still in a job where nobody was seen to wait for them
WEAK_SIGHTING = 0.75  # we know who, and only roughly what it does
NOT_TOLD = 0.5  # we know who, and nothing of what it does
DOUBTFUL = 0.8  # the ring dropped something, or a group's members are not certain
UNREAD_RANKS = 0.9  # some rank could not be read
MOVING = 0.7  # something of the culprit still moves

# What only time proves begins low, and grows with how long it has stood, of the time after which it would be an alarm.
AT_FIRST = 0.5
JUST_BEFORE_ALARM = 0.9
STEP = 0.05  # in such steps: a reader is not told anew every second


def times(base: float, *factors: float) -> float:
    """Multiply, and keep two digits: more would claim what we do not know."""
    for factor in factors:
        base *= factor
    return round(base, 2)


def before_alarm(settled: float, share: float) -> float:
    """Of what will be `settled` once time has proven it, after this share of that time."""
    grown = settled * (AT_FIRST + (JUST_BEFORE_ALARM - AT_FIRST) * min(max(share, 0.0), 1.0))
    return round(int(grown / STEP + 0.5) * STEP, 2)
