"""What threads did between two looks: how much of a core, how many bytes.

Enters: nothing. Leaves: a table that points at threads by their place in a sighting, so that sightings of equal ranks
stay equal. Never here: how it is read (ddetect.agent), what it means (ddetect.correlate).
"""

from __future__ import annotations

from dataclasses import dataclass

from ddetect.model.tables import UNKNOWN, Floats, Ints, Table, floats, ints


@dataclass(frozen=True, eq=False)
class Efforts(Table):
    """What threads did since we looked before, our own questions taken off.

    A thread of a metered process that is not here has not run for one instruction, and moved nothing.
    """

    rank: Ints = ints()
    pid: Ints = ints()
    # Its place among the threads of its process's sighting; UNKNOWN: the busiest of those below Python, or all of a
    # process whose stack was not read.
    thread: Ints = ints(fill=UNKNOWN)
    busy: Floats = floats()  # share of one core
    runs: Ints = ints()  # how often it was put on a CPU
    bytes: Ints = (
        ints()
    )  # its own reads and writes, and what went through the descriptors that it was blocked in
    bytes_age_s: Floats = floats(age=True)  # since they were last seen to move; inf if never
