"""Is it time for an alarm that only time proves? A watch and an opinion enter; the watch, and yes or no, leave.

Patience counts from the last certain motion of those who are named. Weak motion beside them puts its end off, and not
for ever: a metrics daemon never rests. When it is up, two more looks must agree. Never here: what motion is.
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.coordinator.facts import Facts
from ddetect.coordinator.opinion import Opinion, concerned
from ddetect.coordinator.watch import Watch
from ddetect.model import Proof, Status, Verdict

PAUSE_MARGIN = 3.0  # a pause that its framework is known to make must last so much longer
UNDECIDED_MARGIN = 3.0  # an alarm that names nobody must wait longer
# No rank has a probe and nobody waits: a job may do one thing nearly all of its time. Also the most that weak motion
# can stretch a limit.
UNCOUNTED_MARGIN = 10.0


def patience_is_up(
    watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts, now: float, *, looks_again: bool
) -> tuple[Watch, bool]:
    """Note what moved. Whether nothing has for long enough; `looks_again`: in each of the last looks too."""
    looked = watch.last_looks
    ranks = concerned(verdict, opinion.snapshot)
    still_since = now if opinion.motion.certain else watch.still_since
    watch = replace(
        watch,
        last_looks=0,
        still_since=max(still_since, facts.nodes.active_at(ranks)),
        weak_at=now if opinion.motion.weak else watch.weak_at,
        stands_s=opinion.stands_s,
    )
    if now < due_at(watch, verdict, facts):
        return watch, False
    watch = replace(watch, last_looks=looked + 1)
    return watch, not looks_again or watch.looked_its_last


def due_at(watch: Watch, verdict: Verdict, facts: Facts) -> float:
    """When patience ends."""
    after_s = confirm_after_s(watch, verdict, facts)
    at_most_s = UNCOUNTED_MARGIN * facts.patience.confirm_after_s(watch.phase, steps=watch.steps)
    stretched = max(watch.still_since, watch.weak_at) + after_s
    return min(stretched, watch.still_since + max(after_s, at_most_s))


def confirm_after_s(watch: Watch, verdict: Verdict, facts: Facts) -> float:
    """How long nothing may move before this verdict is an alarm."""
    limit = facts.patience.confirm_after_s(watch.phase, steps=watch.steps)
    limit = max(limit, PAUSE_MARGIN * watch.stands_s)
    alone = not verdict.waiting and verdict.proof is Proof.TIME
    if (alone or not verdict.culprits) and not facts.nodes.any_page():
        return limit * UNCOUNTED_MARGIN
    return limit * UNDECIDED_MARGIN if verdict.status is Status.UNDECIDED else limit
