from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.model import Cause, Culprit, Judgement, Stage, Status
from ddetect.report.text import format_report
from tests.unit.report import incidents

SHAPES = [incidents.loader_hang, incidents.mismatch, incidents.undecided, incidents.closed]


def section(report: str, title: str) -> list[str]:
    """The items under a title."""
    lines = report.splitlines()
    assert title in lines, report
    after = lines[lines.index(title) + 1 :]
    end = next((n for n, line in enumerate(after) if not line), len(after))
    return [line.removeprefix("  - ") for line in after[:end]]


@pytest.mark.parametrize("shape", SHAPES)
def test_report_begins_with_the_answer(shape):
    """The first line is the summary, whole, so that a tired reader may stop there."""
    incident = shape()

    assert format_report(incident).splitlines()[0] == incident.verdict.summary


def test_second_paragraph_says_what_how_sure_and_how_long():
    """Status, cause, stage, confidence and standstill are one line."""
    line = format_report(incidents.loader_hang()).splitlines()[2]

    assert line == (
        "HANG (data_loading), confirmed, 97% sure. No progress for 1m12s (since 2026-01-01 02:59:56 UTC). "
        "Job night-run, 4 ranks."
    )


def test_loader_worker_is_named_with_its_line_and_pid():
    """The line to open and the process to look at stand together."""
    assert section(format_report(incidents.loader_hang()), "Look at") == [
        "dataset.py:88 in read_shard  (rank 2, node-0, pid 4705, its loader worker 1: pid 4711)"
    ]


def test_line_of_a_library_is_marked():
    """Nobody should look for it in his own files."""
    (line,) = section(format_report(incidents.library_line()), "Look at")

    assert line.startswith("tariterators.py:88 in url_opener (a library's line)  (rank 2, ")


def test_victims_are_listed_as_waiting():
    """Ranks that only wait are said not to be at fault."""
    assert section(format_report(incidents.loader_hang()), "Waiting, not at fault") == [
        "ranks 0-1,3 in all_reduce #412 of default_pg (gloo)"
    ]


def test_reasons_come_before_advice_and_the_command_last():
    """Answer, reasons, what to do, next command: in this order."""
    report = format_report(incidents.loader_hang())
    places = [report.index(title) for title in ("Look at", "Why we say so", "What to do", "Next")]

    assert places == sorted(places)
    assert report.splitlines()[-1].startswith("  - py-spy dump --pid 4711")


def test_stopped_process_is_answered_with_the_command_that_wakes_it():
    """A blocking dump of a stopped process fails, so the next command is another one."""
    base = incidents.loader_hang()
    stopped = replace(base, verdict=replace(base.verdict, cause=Cause.PROCESS_STOPPED))

    assert section(format_report(stopped), "Next")[0].startswith("kill -CONT 4711")


def test_undecided_says_what_could_not_be_read_and_claims_no_confidence():
    """Nobody is blamed and no percentage is shown when there is no verdict."""
    report = format_report(incidents.undecided())

    assert section(report, "Could not be read") == [
        "rank 7: ptrace is not permitted on node-1 (yama scope 3)"
    ]
    assert "sure" not in report
    assert "Look at" not in report


def test_closed_incident_says_why_and_sends_to_the_saved_evidence():
    """After the end there is no process to look into; the folder is what remains."""
    report = format_report(incidents.closed(), folder="my out/incident-004")

    assert "Closed after 1m16s (2026-01-01 03:01:15 UTC): progress resumed: step 413" in report
    assert section(report, "Next") == ["ddetect diagnose 'my out/incident-004'"]


def test_history_shows_only_judgements_that_differ():
    """A judgement repeated with the same words is not worth a line at night."""
    assert section(format_report(incidents.closed()), "Said earlier") == [
        "2026-01-01 03:00:00 UTC, suspected hang (user_code): rank 2 sleeps in train.py:10 step"
    ]


def test_colour_only_when_asked_and_never_from_the_job():
    """Escape sequences and markup in the job's strings arrive as harmless text."""
    base = incidents.loader_hang()
    nasty = replace(base.verdict, summary="rank 2 \x1b[2J[red]fails\r\nin x", evidence=("a\x07b\u202ec",))

    plain = format_report(replace(base, verdict=nasty))
    coloured = format_report(replace(base, verdict=nasty), color=True)

    assert "\x1b" not in plain
    assert plain.splitlines()[0] == "rank 2 \ufffd[2J[red]fails in x"
    assert section(plain, "Why we say so") == ["a\ufffdb\ufffdc"]
    assert coloured.startswith("\x1b[1;31mrank 2 \ufffd[2J")


@pytest.mark.parametrize("shape", SHAPES)
def test_width_wraps_every_line_without_losing_a_word(shape):
    """On a narrow terminal nothing is cut and nothing overflows, but for words longer than the line."""
    wide, narrow = format_report(shape()), format_report(shape(), width=60)

    assert wide.split() == narrow.split()
    assert max(map(len, narrow.splitlines())) <= 60


def test_many_culprits_are_counted_not_listed():
    """A thousand culprits do not push the advice off the screen."""
    base = incidents.mismatch()
    many = replace(base.verdict, culprits=tuple(Culprit(rank=rank) for rank in range(1000)))

    shown = section(format_report(replace(base, verdict=many)), "Look at")

    assert len(shown) == 9
    assert shown[-1] == "and 992 more ranks"


def test_healthy_report_speaks_of_no_standstill():
    """A healthy job has no stall to report."""
    base = incidents.undecided()
    well = replace(base.verdict, status=Status.HEALTHY, summary="the job moves", unread=(), waiting=())

    assert "No progress" not in format_report(replace(base, verdict=well))


def test_history_of_another_rank_is_shown():
    """The same cause on another rank is a different judgement."""
    other = Judgement(
        Stage.SUSPECTED, Status.HANG, Cause.DATA_LOADING, (1,), "rank 1 it was", incidents.JUDGED_NS
    )

    report = format_report(replace(incidents.loader_hang(), history=(other,)))

    assert section(report, "Said earlier")[0].endswith("rank 1 it was")


def test_command_that_the_advice_holds_already_is_not_said_twice():
    """When the advice says how to look, the next command is the one that reads the evidence."""
    base = incidents.loader_hang()
    advised = replace(base.verdict, advice=("See it yourself: `py-spy dump --pid 4711`.",))

    report = format_report(replace(base, verdict=advised), folder="out/incident-001")

    assert report.count("py-spy dump") == 1
    assert section(report, "Next") == ["ddetect diagnose out/incident-001"]
