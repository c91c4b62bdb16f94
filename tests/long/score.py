"""Hold what was said of one run against its truth. Pure.

Enters: a case, and what was `Seen` of its run. Leaves: a `Score`. Never here: mercy. A hang is suspected when its rank
is named, and only that rank; a limit that `status` did not show is not kept; silence about a healthy job is judged
by every word that was ever written, also by those that were taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.long.case import SLACK_S, STRUCTURAL_S, TWIN_PATIENCE_S, Case, Suite, limit_s, suspicion_s
from tests.long.samples import Sample
from tests.long.words import WITHDRAWN, Word, highest, incidents_of

TOO_SURE = 0.90  # nothing said of a healthy program reaches this
BUSY = 4.0  # a hang that was timed on a busier machine than that is timed again
SAID = 300  # characters that are kept


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run left. Times are CLOCK_MONOTONIC."""

    began: float
    ended: float
    hung_at: float | None
    words: list[Word]
    samples: list[Sample]
    replayed: tuple[Word, ...] = ()  # what its event log gives: also what stood there for a moment
    pauses: int = 0  # rows of pauses.jsonl
    shorter: float = 1.0  # by the command line, beside the case's own
    problem: str = ""
    left: str = ""  # what outlived the run


@dataclass(frozen=True, slots=True)
class Score:
    """One row of the result. Seconds are from the hang."""

    name: str
    suite: str
    kind: str
    noise: str
    minutes: float
    right: bool
    alarms: int  # about a healthy job, or before it hung
    suspicions: int  # folders that were seen while it was well
    pauses: int
    highest: float  # confidence of anything said while it was well
    usual_s: float = 0.0
    suspected_s: float | None = None
    suspected_within_s: float | None = None
    alarm_s: float | None = None
    alarm_within_s: float | None = None  # None: it was not shown
    situation: str = ""
    rank_right: bool | None = None
    line_right: bool | None = None
    cause_right: bool | None = None
    load: float = 0.0  # the highest while a hang was timed
    repeat: bool = False
    says: str = ""
    failed: str = ""
    left: str = ""


def score(case: Case, seen: Seen) -> Score:
    """What the run is worth."""
    return _of_healthy(case, seen) if case.healthy else _of_hang(case, seen)


def _of_healthy(case: Case, seen: Seen) -> Score:
    alarms = len({word.incident for word in seen.words if word.alarm})
    every = [*seen.words, *seen.replayed]
    surest = max(every, key=lambda word: word.confidence, default=None)
    quiet = not alarms and highest(every) < TOO_SURE
    return Score(
        name=case.name,
        suite=case.suite.value,
        kind=case.kind,
        noise=case.noise,
        minutes=round((seen.ended - seen.began) / 60, 1),
        right=quiet and not seen.problem and not seen.left,
        alarms=alarms,
        suspicions=incidents_of(seen.words),
        pauses=seen.pauses,
        highest=round(highest(every), 3),
        usual_s=round(case.pace_s / (case.shorter * seen.shorter), 1),
        says=_words(surest),
        failed=seen.problem[:SAID],
        left=seen.left[:SAID],
    )


def _of_hang(case: Case, seen: Seen) -> Score:
    hung_at = seen.hung_at
    problem = seen.problem or ("" if hung_at is not None else "it did not say that it hangs")
    hung = hung_at if hung_at is not None else float("inf")
    before = [word for word in seen.words if word.at < hung]
    usual_s = case.pace_s / (case.shorter * seen.shorter)
    named = _first_named(case, seen.words, hung)
    alarm = next((word for word in seen.words if word.at >= hung and word.alarm), None)
    situation, within_s = _limit(case, seen, named, usual_s)
    told = {
        "suspected_s": _after(named, hung),
        "suspected_within_s": suspicion_s(usual_s),
        "alarm_s": _after(alarm, hung),
        "alarm_within_s": within_s,
    }
    rank_right = alarm is not None and alarm.ranks == (case.rank,)
    line_right = alarm is not None and is_there(case, alarm)
    cause_right = alarm is not None and alarm.cause in {cause.value for cause in case.causes}
    in_time = _within(told["alarm_s"], told["alarm_within_s"])
    if case.suite is Suite.HANG:
        suspected = _within(told["suspected_s"], told["suspected_within_s"])
        in_time = in_time and suspected and rank_right and line_right and cause_right
    false_alarms = len({word.incident for word in before if word.alarm})
    load = _load(seen.samples, hung, alarm.at if alarm else seen.ended)
    return Score(
        name=case.name,
        suite=case.suite.value,
        kind=case.kind,
        noise=case.noise,
        minutes=round((seen.ended - seen.began) / 60, 1),
        right=in_time and not false_alarms and not problem and not seen.left,
        alarms=false_alarms,
        suspicions=incidents_of(before),
        pauses=seen.pauses,
        highest=round(highest([*before, *(word for word in seen.replayed if word.at < hung)]), 3),
        usual_s=round(usual_s, 1),
        situation=situation,
        rank_right=rank_right,
        line_right=line_right,
        cause_right=cause_right,
        load=load,
        repeat=case.suite is Suite.HANG and load > BUSY,
        says=_words(alarm or (seen.words[-1] if seen.words else None)),
        failed=problem[:SAID],
        left=seen.left[:SAID],
        **told,
    )


def is_there(case: Case, word: Word) -> bool:
    """Whether a culprit is in a marked function of the program; one that is stopped from outside is anywhere."""
    if not case.functions:
        return True
    return any(
        file == case.path.name and function.rpartition(".")[2] in case.functions
        for file, function, _ in word.lines
    )


def _first_named(case: Case, words: list[Word], hung: float) -> Word | None:
    """The first word after the hang that names its rank; or one from before that stands, and names its line too."""
    naming = [word for word in words if word.ranks == (case.rank,) and word.stage != WITHDRAWN]
    last = next((word for word in reversed(words) if word.at < hung), None)
    if last is not None and last in naming and is_there(case, last):
        return last
    return next((word for word in naming if word.at >= hung), None)


def _limit(case: Case, seen: Seen, named: Word | None, usual_s: float) -> tuple[str, float | None]:
    """The situation and the limit of the alarm: a twin's by the table, a hang's as it was shown when it was named."""
    if case.suite is Suite.TWIN:
        table_s = limit_s(case.situation, TWIN_PATIENCE_S, usual_s)
        return case.situation.value, table_s + SLACK_S
    if named is None:
        return "not named", None
    for sample in seen.samples:
        alarm = (sample.status or {}).get("alarm") if sample.at >= named.at else None
        if (
            alarm and alarm["after_s"] is not None
        ):  # None: while it works there is no limit, and so no promise yet
            return str(alarm["situation"]), max(float(alarm["after_s"]), STRUCTURAL_S) + SLACK_S
    return "not shown", None


def _within(took_s: float | None, most_s: float | None) -> bool:
    return took_s is not None and most_s is not None and took_s <= most_s


def _after(word: Word | None, hung: float) -> float | None:
    return round(max(0.0, word.at - hung), 1) if word is not None else None


def _load(samples: list[Sample], since: float, until: float) -> float:
    return round(max((sample.load for sample in samples if since <= sample.at <= until), default=0.0), 1)


def _words(word: Word | None) -> str:
    return f"({word.confidence:.2f}) {word.summary}"[:SAID] if word is not None else ""
