"""An incident as text: the answer, how sure, the line to look at, the reasons, what to do, what to type next.

Enters: an Incident. Leaves: text; plain unless colour is asked for. Strings of the job are cleaned first.
Never here: I/O, judging, looking whether there is a terminal.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

from ddetect.model import Cause, Culprit, Incident, Judgement, Names, Stage, Status, Unread, Waiting
from ddetect.report.words import LIBRARYS_LINE, clean, format_clock, format_duration, name_members

_BOLD, _RED, _YELLOW, _GREEN, _DIM = "1", "1;31", "1;33", "1;32", "2"
_SHOWN = 8  # culprits, waiting groups and unread reasons shown one by one; the rest is counted


def format_report(
    incident: Incident, *, color: bool = False, width: int | None = None, folder: str | None = None
) -> str:
    """Everything a person needs to act, answer first; `width` wraps, `folder` is where it is kept."""
    verdict = incident.verdict
    page = _Page(color, width)
    page.line(_clean_sentence(verdict.summary), style=_headline_style(incident))
    page.line("")
    page.line(_standing(incident))
    if incident.closed is not None:
        page.line(
            f"Closed after {format_duration(incident.closed.lasted_s)} "
            f"({format_clock(incident.closed.at_unix_ns)}): {clean(incident.closed.reason)}"
        )
    names = verdict.names
    page.section("Look at", [_culprit(item, names) for item in verdict.culprits[:_SHOWN]])
    page.more(len(verdict.culprits) - _SHOWN, names.noun)
    page.section("Waiting, not at fault", [_waiting(item, names) for item in verdict.waiting[:_SHOWN]])
    page.more(len(verdict.waiting) - _SHOWN, "group")
    page.section("Why we say so", [clean(item) for item in verdict.evidence])
    page.section("Could not be read", [_unread(item, names) for item in verdict.unread[:_SHOWN]])
    page.more(len(verdict.unread) - _SHOWN, "reason")
    page.section("What to do", [clean(item) for item in verdict.advice])
    page.section("Said earlier", list(_history(incident)))
    page.section("Next", [_next_command(incident, folder)])
    return page.text()


def _headline_style(incident: Incident) -> str:
    if incident.stage is Stage.CLOSED or incident.verdict.status is Status.HEALTHY:
        return _GREEN
    return _RED if incident.verdict.status in (Status.HANG, Status.STOPPED) else _YELLOW


def _clean_sentence(summary: str) -> str:
    return clean(summary) or "There is no summary of this incident."


def _standing(incident: Incident) -> str:
    verdict = incident.verdict
    cause = f" ({verdict.cause.value})" if verdict.cause else ""
    parts = [f"{verdict.status.value.upper()}{cause}", incident.stage.value]
    if verdict.status not in (Status.UNDECIDED, Status.HEALTHY):
        parts.append(f"{verdict.confidence:.0%} sure")
    still = _standstill(incident)
    job = f"job {clean(incident.job)}" if incident.job else "job without a name"
    names = verdict.names
    ending = "" if incident.world_size == 1 else "s"
    ranks = f", {incident.world_size} {names.words.member}{ending}" if incident.world_size > 0 else ""
    if names.lanes > 1 and incident.members > 0:
        ranks = f", {incident.members} {names.words.lane}s" + (
            "" if incident.world_size == 1 else f" in{ranks[1:]}"
        )
    attempt = f", attempt {incident.attempt}" if incident.attempt > 0 else ""
    return f"{', '.join(parts)}. {still}{job[0].upper()}{job[1:]}{ranks}{attempt}."


def _standstill(incident: Incident) -> str:
    if incident.stalled_for_s <= 0 or incident.verdict.status is Status.HEALTHY:
        return ""
    since = (
        f" (since {format_clock(incident.last_progress_unix_ns)})" if incident.last_progress_unix_ns else ""
    )
    return f"No progress for {format_duration(incident.stalled_for_s)}{since}. "


def _culprit(culprit: Culprit, names: Names) -> str:
    where, process = culprit.where, culprit.process
    line = f"{clean(where.file)}:{where.line} in {clean(where.function)}" if where else "no line of user code"
    if where is not None and where.library:
        line += f" {LIBRARYS_LINE}"
    who = [name_members((culprit.member,), names if culprit.lane is not None else names.by_rank)]
    if culprit.host:
        who.append(clean(culprit.host))
    if culprit.pid is not None:
        who.append(f"pid {culprit.pid}")
    if process is not None:
        number = f" {process.index}" if process.index >= 0 else ""
        who.append(f"its {process.role.replace('_', ' ')}{number}: pid {process.pid}")
    return f"{line}  ({', '.join(who)})"


def _waiting(item: Waiting, names: Names) -> str:
    number = f" #{item.seq}" if item.seq is not None else ""
    group = f" of {clean(item.group)}" if item.group else ""
    backend = f" ({clean(item.backend)})" if item.backend else ""
    return f"{name_members(item.members, names)} in {clean(item.on)}{number}{group}{backend}"


def _unread(item: Unread, names: Names) -> str:
    return f"{name_members(item.ranks, names.by_rank)}: {clean(item.reason)}"


def _history(incident: Incident) -> Iterator[str]:
    """Earlier judgements, where they said something else than is said now."""
    now = (incident.verdict.status, incident.verdict.cause, incident.verdict.culprit_ranks)
    earlier = [j for j in incident.history if (j.status, j.cause, tuple(sorted(j.culprits))) != now]
    yield from (_judgement(item) for item in earlier)


def _judgement(item: Judgement) -> str:
    cause = f" ({item.cause.value})" if item.cause else ""
    said = f"{item.stage.value} {item.status.value}{cause}"
    return f"{format_clock(item.at_unix_ns)}, {said}: {clean(item.summary)}"


def _next_command(incident: Incident, folder: str | None) -> str:
    """One command. A live hang: look into the process yourself; else read the saved evidence again."""
    verdict = incident.verdict
    named = [(c, c.process.pid if c.process else c.pid) for c in verdict.culprits]
    live = [(c, pid) for c, pid in named if pid is not None and pid > 0]
    if verdict.status is Status.HANG and incident.stage is not Stage.CLOSED and live:
        culprit, pid = live[0]
        host = f"on {clean(culprit.host)}, " if culprit.host else ""
        look = f"py-spy dump --pid {pid}", "while it is still stuck"
        wake = f"kill -CONT {pid}", "if nobody means it to be stopped"
        typed, when = wake if verdict.cause is Cause.PROCESS_STOPPED else look
        if not any(typed in advice for advice in verdict.advice):  # said already, with its reason
            return f"{typed}    ({host}{when})"
    if folder:
        return f"ddetect diagnose {shlex.quote(folder)}"
    if verdict.status is Status.UNDECIDED:
        return "ddetect doctor    (on the nodes: what can ddetect see there?)"
    return "ddetect status    (how is the job now?)"


class _Page:
    """Lines with sections, wrapped and coloured as asked."""

    def __init__(self, color: bool, width: int | None) -> None:
        self._color, self._width = color, width
        self._lines: list[str] = []

    def line(self, text: str, *, indent: str = "", hang: str = "", style: str = "") -> None:
        lines = [indent + text]
        if self._width is not None and text:
            lines = textwrap.wrap(
                text,
                max(40, self._width),
                initial_indent=indent,
                subsequent_indent=hang,
                break_long_words=False,
                break_on_hyphens=False,
            )
        self._lines += [self._paint(one, style) for one in lines]

    def section(self, title: str, items: list[str]) -> None:
        if not items:
            return
        self.line("")
        self.line(title, style=_BOLD)
        for item in items:
            self.line(item, indent="  - ", hang="    ")

    def more(self, count: int, what: str) -> None:
        if count > 0:
            self.line(f"and {count} more {what}{'s' if count > 1 else ''}", indent="  - ", style=_DIM)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines) + "\n"

    def _paint(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and style and text else text
