"""How long a process may be paused for its native stacks: the dump must not do what the hang did.

Enters: how long each dump paused a process, and when. Leaves: how long the next one may, or not at all.
A dump that failed is not tried again at once: a machine that is too slow now is too slow in a second, too.
Never here: processes, clocks (`now` is an argument).
"""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW_S = 10.0
MOST_S = 2.0
"""Pauses of one process within one window, all together."""
LEAST_S = 1.0
"""Less than this is not worth beginning: the symbols of a large library take longer to find."""
_LONGEST_REST_S = 300.0


@dataclass(slots=True)
class _Past:
    pauses: list[tuple[float, float]] = field(default_factory=list)  # when it ended, how long it was
    failures: int = 0
    rests_until: float = 0.0


class PauseBudget:
    """Remembers each process by a key of the caller's."""

    def __init__(self, window_s: float = WINDOW_S, most_s: float = MOST_S) -> None:
        self._window_s = window_s
        self._most_s = most_s
        self._past: dict[object, _Past] = {}

    def allowed_s(self, key: object, now: float) -> float:
        """How long this process may be paused from now on; 0.0 if it must not be."""
        past = self._past.get(key)
        if past is None:
            return self._most_s
        if now < past.rests_until:
            return 0.0
        left = self._most_s - sum(paused for ended, paused in past.pauses if now - ended < self._window_s)
        return left if left >= LEAST_S else 0.0

    def note(self, key: object, now: float, paused_s: float, *, failed: bool) -> None:
        """A dump of it has ended just now."""
        past = self._past.setdefault(key, _Past())
        past.pauses = [one for one in past.pauses if now - one[0] < self._window_s] + [(now, paused_s)]
        past.failures = past.failures + 1 if failed else 0
        if failed:
            past.rests_until = now + min(_LONGEST_REST_S, self._window_s * 2 ** (past.failures - 1))
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Processes end, and nobody tells us."""
        for key in [
            key
            for key, past in self._past.items()
            if now > past.rests_until + _LONGEST_REST_S and now - past.pauses[-1][0] > _LONGEST_REST_S
        ]:
            del self._past[key]
