"""Is it time for an alarm that only time proves? A watch and an opinion enter; the watch, and yes or no, leave.

Time counts from when those that are named last worked. That they run, or poll, puts the end off, and not for ever: a
metrics daemon never rests. When it is up, two more looks must agree. The limits are those of correlate/limits.py.
Never here: what motion is.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ddetect.coordinator.facts import Facts
from ddetect.coordinator.opinion import Opinion, concerned
from ddetect.coordinator.watch import Outlook, Watch
from ddetect.correlate.limits import Situation, alarm_after_s, situation_of, still_limit_s
from ddetect.model import Verdict

PAUSE_MARGIN = 3.0  # a pause that its framework is known to make must last so much longer
BEFORE_TIMEOUT_S = 30.0  # an operation that times out ends the job: the alarm comes so long before,
BEFORE_TIMEOUT = 0.9  # or after this part of its time, where that is later


def patience_is_up(
    watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts, now: float, *, looks_again: bool
) -> tuple[Watch, bool]:
    """Note what moved. Whether nothing has for long enough; `looks_again`: in each of the last looks too."""
    looked, motion = watch.last_looks, opinion.motion
    worked_at = now - motion.works_age_s if motion.works else -math.inf
    counted_at = facts.nodes.active_at(concerned(verdict, opinion.snapshot))
    watch = replace(
        watch,
        last_looks=0,
        still_since=max(watch.still_since, worked_at, counted_at),
        runs_at=now if motion.runs else watch.runs_at,
        polls_at=now if motion.polls else watch.polls_at,
        stands_s=opinion.stands_s,
    )
    watch = replace(watch, outlook=outlook_of(watch, opinion, verdict, facts))
    if watch.outlook is None or now < watch.outlook.at:
        return watch, False
    watch = replace(watch, last_looks=looked + 1)
    return watch, not looks_again or watch.looked_its_last


def outlook_of(watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts) -> Outlook:
    """Which limit runs, and when it is up."""
    settings, starting = facts.settings, not facts.patience.learned(watch.steps)
    usual = facts.patience.usual_s(watch.phase, opinion.place)
    pause_s = PAUSE_MARGIN * watch.stands_s

    def after(situation: Situation) -> float:
        return max(alarm_after_s(situation, settings, usual, starting=starting), pause_s)

    base = situation_of(verdict, members=opinion.members, unread=opinion.unread)
    if base is Situation.PROVEN:
        base = Situation.STILL  # by looks that it is older than: they cannot prove it
    again_s = max(still_limit_s(settings, usual, starting=starting), pause_s)
    since, motion = watch.still_since, opinion.motion
    found = [
        Outlook(base, after(base), since + after(base)),
        _put_off(Situation.POLLS, after(Situation.POLLS), watch.polls_at + again_s, since, motion.polls),
        _put_off(Situation.RUNS, after(Situation.RUNS), watch.runs_at + again_s, since, motion.runs),
    ]
    latest = max(found, key=lambda one: one.at)
    if motion.works:
        latest = Outlook(Situation.WORKS, math.inf, math.inf, motion.works)
    return min(latest, _timeout(opinion, watch), key=lambda one: one.at)


def _put_off(situation: Situation, after_s: float, again_at: float, since: float, because: str) -> Outlook:
    """Seen to move so, it gets patience anew, up to the limit of its situation."""
    return Outlook(situation, after_s, min(again_at, since + after_s), because)


def _timeout(opinion: Opinion, watch: Watch) -> Outlook:
    """Shortly before the operation that others wait in times out: that ends the job anyway."""
    times_out_at, lasts_s = opinion.times_out_in_s + watch.judged_at, opinion.timeout_s
    if not math.isfinite(times_out_at):
        return Outlook(Situation.STILL, math.inf, math.inf)
    early_s = min(BEFORE_TIMEOUT_S, (1 - BEFORE_TIMEOUT) * lasts_s)
    because = f"the operation that others wait in times out after {lasts_s:.0f} s"
    return Outlook(Situation.STILL, max(0.0, lasts_s - early_s), times_out_at - early_s, because)
