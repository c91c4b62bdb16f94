"""What threads did between looks, as the kernel counts it: CPU, turns on a CPU, bytes.

Enters: nothing. Leaves: `Efforts`, a table of the threads that did anything. Never here: how it is counted
(ddetect.agent.meter), whether it is progress (ddetect.correlate): a thread that spins in a collective is busy too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddetect.model.tables import UNKNOWN, Floats, Ints, Table, floats, ints


@dataclass(frozen=True, eq=False)
class Efforts(Table):
    """What threads did since we looked before, our own questions taken off.

    A thread of a metered process that is not here has not run for one instruction, and moved nothing. Metered is a
    process whose `Sample.metered_s` is a number: so long is its window. Of one with very many threads that run, the
    busiest are here.
    """

    rank: Ints = ints()
    pid: Ints = ints()
    # Its place in `threads` of its process's sighting in the same look. UNKNOWN: below Python, the busiest of all other
    # threads of the process, with the bytes of all of these; of a process whose stack was not read, the whole process.
    thread: Ints = ints(fill=UNKNOWN)
    busy: Floats = floats()  # share of one core over the window
    runs: Ints = ints()  # how often it was put on a CPU in the window
    # Moved in the window, by its own system calls and in the descriptors that it is or was blocked in (some count
    # twice); UNKNOWN where we may not see them.
    bytes: Ints = ints()
    bytes_age_s: Floats = floats(
        age=True
    )  # since the newest look that found such bytes moved; inf if none did
