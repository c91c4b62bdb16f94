"""How long members may stand where they are and be well. A Snapshot and ranks enter, seconds leave.

Never here: what a job has taught about itself (the coordinator's patience).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ddetect.correlate.classify import classify
from ddetect.correlate.where import whose_of
from ddetect.frameworks import framework_of
from ddetect.model import Role, Snapshot, rank_of


def stands_s(snapshot: Snapshot, members: Iterable[int]) -> float:
    """The longest that a framework's own pause lasts in which one of these members was last seen; 0 if none is."""
    framework = framework_of(snapshot)
    whose = whose_of(snapshot.homes, framework.patterns.packages)
    ranks = [rank_of(member) for member in members]
    longest = 0.0
    for sample in snapshot.samples[-1:]:
        rows = np.isin(sample.rank, ranks) & (sample.role == Role.RANK)
        for number in np.unique(sample.sighting[rows]):
            thread = classify(sample.sightings[int(number)], framework, Role.RANK, 0, whose=whose).thread
            if thread is not None and thread.stack:
                longest = max(longest, framework.stands_s(thread.stack[0]))
    return longest
