"""A new format is a function and a line in a registry that is handed over."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import pytest

from ddetect.cli import diagnose
from ddetect.coordinator.incidents import Incidents
from ddetect.model import Incident, Snapshot
from ddetect.report.formats import JSON, REPORTS, TEXT, Report, Shown, named
from ddetect.report.json_ import format_verdict_json
from ddetect.report.text import format_report
from ddetect.wire.file import write_snapshot
from tests.unit.report.incidents import closed, loader_hang


def headline(incident: Incident, snapshot: Snapshot, shown: Shown) -> str:
    """A made-up format: Markdown, one line."""
    return f"# {incident.verdict.status.value} of {snapshot.job}, kept in {shown.folder}\n"


HEADLINE = Report("headline", "headline.md", headline)
WITH_MINE = (*REPORTS, HEADLINE)


def test_format_from_elsewhere_is_written_to_the_incident_folder(tmp_path):
    """Beside the formats of the house, before the verdict, and the registry of the package is as it was."""
    folder = Incidents(tmp_path, WITH_MINE).write(loader_hang(), Snapshot(job="j"))

    assert (folder / "headline.md").read_text() == f"# hang of j, kept in {folder}\n"
    assert json.loads((folder / "verdict.json").read_text())["cause"] == "data_loading"
    assert (folder / "headline.md").stat().st_mtime_ns <= (folder / "verdict.json").stat().st_mtime_ns
    assert REPORTS == (TEXT, JSON)


@pytest.mark.parametrize("files", [1, 2])
def test_format_from_elsewhere_is_printed_by_diagnose(tmp_path, capsys, files):
    """It is asked for by its name; several files stand below each other."""
    path = tmp_path / "one.ddsnap"
    write_snapshot(path, Snapshot(job="night-run", world_size=2))
    parser = argparse.ArgumentParser()
    diagnose.add_arguments(parser, WITH_MINE)

    diagnose.run(parser.parse_args(["--format", "headline", *[str(path)] * files]), WITH_MINE)

    one = "# undecided of night-run, kept in None\n"
    assert capsys.readouterr().out == (one if files == 1 else f"== {path} ==\n{one}\n== {path} ==\n{one}")


def test_formats_of_the_house_say_what_their_functions_say():
    """The registry adds nothing to the text and the contract."""
    incident, snapshot = closed(), Snapshot()

    assert named("text")(incident, snapshot) == format_report(incident)
    assert named("json")(incident, snapshot) == format_verdict_json(incident)
    assert named("text")(incident, snapshot, Shown(folder="out/x")) == format_report(incident, folder="out/x")


def test_verdict_is_plain_ascii_whatever_the_job_says(tmp_path):
    """A terminal or a disk with another encoding does not refuse it."""
    base = loader_hang()
    told = replace(base, verdict=replace(base.verdict, summary="rank 2 raised ValueError: größe \udc80"))

    assert named("json")(told, Snapshot()).isascii()
