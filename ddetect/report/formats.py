"""The formats that an incident is told in, one registry. Incident folders, `diagnose` and `attach` read it.

A new format is a file that makes text of an Incident and its Snapshot, and a line in REPORTS. It is handed over as an
argument, so a format from elsewhere takes part without a change here. Never here: I/O, judging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddetect.model import Incident, Snapshot
from ddetect.report.json_ import format_verdict_json, list_verdicts
from ddetect.report.text import format_report


@dataclass(frozen=True, slots=True)
class Shown:
    """Where a report is shown: a terminal may have colour and a width; `folder` is where the incident is kept."""

    color: bool = False
    width: int | None = None
    folder: str | None = None


PLAINLY = Shown()


def one_below_the_other(texts: Sequence[str], titles: Sequence[str]) -> str:
    """Several reports, each under its title."""
    return "\n".join(f"== {title} ==\n{text}" for title, text in zip(titles, texts, strict=True))


@dataclass(frozen=True, slots=True)
class Report:
    """A format: how it is asked for, the file it is in an incident's folder, and what makes it."""

    name: str
    file_name: str
    format: Callable[[Incident, Snapshot, Shown], str]
    join: Callable[[Sequence[str], Sequence[str]], str] = one_below_the_other  # several texts, with titles

    def __call__(self, incident: Incident, snapshot: Snapshot, shown: Shown = PLAINLY) -> str:
        """The incident in this format."""
        return self.format(incident, snapshot, shown)


def _text(incident: Incident, snapshot: Snapshot, shown: Shown) -> str:
    return format_report(incident, color=shown.color, width=shown.width, folder=shown.folder)


def _json(incident: Incident, snapshot: Snapshot, shown: Shown) -> str:
    return format_verdict_json(incident)


TEXT = Report("text", "report.txt", _text)
JSON = Report("json", "verdict.json", _json, lambda texts, titles: list_verdicts(texts))

REPORTS: tuple[Report, ...] = (TEXT, JSON)


def named(name: str, reports: Sequence[Report] = REPORTS) -> Report:
    """The format of that name; it must be one of these."""
    return next(report for report in reports if report.name == name)
