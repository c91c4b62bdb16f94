from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ddetect.cli import diagnose
from ddetect.cli.main import main
from ddetect.correlate.judge import judge
from ddetect.model import Snapshot, Stage, Status
from ddetect.wire.file import write_snapshot
from tests.unit.report import incidents
from tests.unit.report.test_status import columns

TAKEN_NS = incidents.JUDGED_NS


def stuck() -> Snapshot:
    """Four ranks that stand still, and nothing that would say why."""
    roster, beats = columns(4)
    return Snapshot(
        job="night-run",
        world_size=4,
        taken_at_unix_ns=TAKEN_NS,
        stalled_for_s=12.0,
        roster=roster,
        beats=beats,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An incident folder with a snapshot."""
    incident = tmp_path / "incident-001"
    incident.mkdir()
    write_snapshot(incident / "snapshot.ddsnap", stuck())
    return incident


def test_file_gives_the_verdict_that_judging_gives(folder, capsys):
    """Written to disk and read again, the evidence is judged alike, and stdout is that verdict alone."""
    code = main(["diagnose", str(folder / "snapshot.ddsnap"), "--json"])
    told = json.loads(capsys.readouterr().out)
    verdict = judge(stuck())

    assert (told["status"], told["summary"]) == (verdict.status.value, verdict.summary)
    assert code == diagnose.exit_code([verdict])
    assert told["last_progress_unix_ns"] == TAKEN_NS - 12_000_000_000
    assert (told["job"], told["world_size"], told["stalled_for_s"]) == ("night-run", 4, 12.0)


def test_folder_stands_for_its_snapshot(folder, capsys):
    """What the incident's own report tells to type works."""
    main(["diagnose", str(folder)])
    from_folder = capsys.readouterr().out
    main(["diagnose", str(folder / "snapshot.ddsnap")])

    assert capsys.readouterr().out == from_folder
    assert from_folder.splitlines()[0] == judge(stuck()).summary


def test_several_files_are_told_apart(folder, capsys):
    """Each report is headed by its file; JSON is a list."""
    main(["diagnose", str(folder), str(folder)])
    assert capsys.readouterr().out.count(f"== {folder} ==") == 2

    main(["diagnose", "--json", str(folder), str(folder)])
    assert len(json.loads(capsys.readouterr().out)) == 2


def broken(folder: Path, how: str) -> Path:
    """A file that is no snapshot, in one of the ways the world offers."""
    whole = (folder / "snapshot.ddsnap").read_bytes()
    path = folder / f"{how}.ddsnap"
    ways = {
        "empty": b"",
        "foreign": b"PK\x03\x04 not ours at all",
        "cut": whole[: len(whole) // 2],
        "damaged": whole[:-20] + bytes([whole[-20] ^ 0xFF]) + whole[-19:],
        "newer": whole[:8] + (99).to_bytes(4, "little") + whole[12:],
    }
    if how in ways:
        path.write_bytes(ways[how])
    return path


@pytest.mark.parametrize("how", ["missing", "empty", "foreign", "cut", "damaged", "newer"])
def test_bad_file_is_one_sentence_with_a_remedy_and_exit_2(folder, capsys, how):
    """No trace, nothing on stdout, nothing changed, whatever the file is."""
    code = main(["diagnose", str(broken(folder, how))])
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    message, blank, *hint = printed.err.splitlines()
    assert f"{how}.ddsnap" in message
    assert blank == ""
    assert hint


def test_one_bad_file_among_good_ones_prints_no_half_answer(folder, capsys):
    """All files are read before anything is said."""
    code = main(["diagnose", str(folder), str(broken(folder, "cut"))])

    assert (code, capsys.readouterr().out) == (2, "")


def test_folder_without_a_snapshot_is_refused(tmp_path, capsys):
    """An empty folder is named, with what to give instead."""
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "no snapshot.ddsnap in" in capsys.readouterr().err


def test_bad_signature_file_is_a_usage_error(folder, tmp_path, capsys):
    """A user's own signatures are checked before judging."""
    (tmp_path / "mine.json").write_text("{}")

    assert main(["diagnose", str(folder), "--signatures", str(tmp_path / "mine.json")]) == 2
    assert "mine.json" in capsys.readouterr().err


def test_stage_of_a_replay_is_the_one_the_incident_had():
    """Whether it was an alarm is not guessed again from the file: motion and time decided that."""
    hang = incidents.loader_hang().verdict

    for stage in (Stage.SUSPECTED, Stage.CONFIRMED):
        assert diagnose.replay(replace(stuck(), stage=stage), hang).stage is stage


def test_exit_code_is_that_of_the_worst_verdict():
    """3 for anything wrong, 4 for undecided, 0 only if all is well."""
    hang, unsure = incidents.loader_hang().verdict, incidents.undecided().verdict
    well = replace(unsure, status=Status.HEALTHY)

    assert diagnose.exit_code([well, well]) == 0
    assert diagnose.exit_code([well, unsure]) == 4
    assert diagnose.exit_code([unsure, hang, well]) == 3
