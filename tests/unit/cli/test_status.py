from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ddetect_launcher.place import open_run_dir
from ddetect_probe import rundir

from ddetect.cli import status
from ddetect.cli.rundirs import base_folders, read_jobs
from ddetect.errors import DdetectError, NetworkError, UsageError
from ddetect.model import Phase
from ddetect.report.status import fold_rows, format_status_table
from ddetect.wire.v1 import client_pb2
from tests.unit.cli.coordinator import response, say_of, serving
from tests.unit.report.test_status import columns


def options(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    status.add_arguments(parser)
    return parser.parse_args(argv)


@pytest.fixture
def base(tmp_path, monkeypatch):
    """An empty place for run directories, and no address from outside."""
    monkeypatch.setenv("DDETECT_RUN_BASE", str(tmp_path))
    monkeypatch.setattr(rundir, "LAST_RESORTS", ())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("DDETECT_COORDINATOR", raising=False)
    monkeypatch.delenv("DDETECT_TOKEN", raising=False)
    folder = tmp_path / f"ddetect-{os.getuid()}"
    folder.mkdir()
    return folder


@contextlib.contextmanager
def job(base: Path, name: str, coordinator: str = "", started: float = 1.0) -> Iterator[Path]:
    """A run directory whose launcher lives."""
    folder = base / name
    folder.mkdir()
    told = {"job": name, "command": ["torchrun", f"{name}.py"], "launcher_pid": 1, "started_unix": started}
    (folder / "job.json").write_text(json.dumps(told))
    if coordinator:
        (folder / "coordinator").write_text(coordinator + "\n")
    with open(folder / "members.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield folder


def test_only_job_is_asked_without_options(base, capsys):
    """One job on the host needs no option."""
    with serving(base / "c.sock", response()) as target, job(base, "night", target):
        assert status.run(options()) == 0

    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Job night-run: moving, 4 ranks, step 1412, 19.8 steps/s."
    assert printed[2].startswith("RANKS")
    assert printed[3].startswith("0-3    1412")


def test_replicas_that_differ_are_told_apart():
    """Members that share a process have a row each; phases of TensorFlow are said as they are called."""
    roster, beats = columns(2)
    roster = replace(roster, rank=np.zeros(2, np.int64), lane=np.arange(2))
    beats = replace(beats, phase=np.array([Phase.STEP, Phase.TRACING]))
    printed = format_status_table(fold_rows(roster, beats)).splitlines()

    assert [line.split()[:3] for line in printed] == [
        ["RANKS", "LANES", "STEP"],
        ["0", "0", "1412"],
        ["0", "1", "1412"],
    ]
    assert (" step " in printed[1], " tracing " in printed[2]) == (True, True)


def test_suspected_job_shows_summary_and_evidence_and_exits_3(base, capsys):
    """The verdict is on stdout and the exit code tells it to scripts."""
    said = response("suspected", incident="out/incident-001", summary="rank 2 waits for its DataLoader")
    with serving(base / "c.sock", said) as target:
        assert status.run(options("--coordinator", target)) == 3

    printed = capsys.readouterr().out
    assert "Job night-run: suspected, 4 ranks, step 1412, no progress for 12 s." in printed
    assert "rank 2 waits for its DataLoader\nEvidence: out/incident-001\n" in printed


def test_slow_job_is_shown_in_seconds_per_step(base, capsys):
    """As the live line says it: 0.00487 steps/s tells nobody anything."""
    said = response()
    said.steps_per_s = 0.00487
    with serving(base / "c.sock", said) as target:
        assert status.run(options("--coordinator", target)) == 0

    assert "step 1412, 205.3 s per step." in capsys.readouterr().out


@pytest.mark.parametrize("verdict_status", ["", "undecided"])
def test_paused_job_is_well_and_has_no_rate(base, capsys, verdict_status):
    """Somebody stopped all ranks: that is no hang, and no step is done."""
    said = response("paused", verdict_status=verdict_status)
    with serving(base / "c.sock", said) as target:
        codes = [status.run(options("--coordinator", target, *more)) for more in ([], ["--json"])]

    printed = capsys.readouterr().out
    assert codes == [0, 0]
    assert "Job night-run: paused, 4 ranks, step 1412, all ranks are stopped (SIGSTOP)." in printed
    assert '"state": "paused"' in printed


def test_blind_coordinator_never_looks_healthy(base, capsys):
    """A lost node and unseen ranks are said, and the exit code is that of undecided."""
    said = response("blind", nodes=[client_pb2.NodeStatus(name="node-1", connected=False, heard_s_ago=40)])
    said.world_size = 8
    say_of(said, 3, has_page=0)
    say_of(said, 1, blind=2)
    with serving(base / "c.sock", said) as target:
        assert status.run(options("--coordinator", target)) == 4

    printed = capsys.readouterr().out
    assert "Node node-1 is lost: nothing heard for 40 s." in printed
    assert "4 of 8 ranks are not seen." in printed
    assert "Ranks without the probe, of which only the process is seen: 1." in printed
    assert "The probe does not see all of rank 1: hooks are off, or groups left out." in printed


def test_json_has_an_entry_per_rank_and_null_for_the_unknown(base, capsys):
    """Programs get every rank, unfolded, as strict JSON."""
    said = response(ranks=3)
    say_of(said, 1, step_age_s=np.inf)
    say_of(said, 2, has_page=0)
    with serving(base / "c.sock", said) as target:
        assert status.run(options("--coordinator", target, "--json")) == 0

    told = json.loads(capsys.readouterr().out)
    assert [(r["rank"], r["step"], r["step_age_s"]) for r in told["ranks"]] == [
        (0, 1412, 12.0),
        (1, 1412, None),
        (2, None, 12.0),
    ]
    assert told["ranks"][0]["phase"] == "collective"
    assert told["ranks"][2]["phase"] is None
    assert (told["schema"], told["state"], told["incident"]) == (1, "moving", None)


def test_no_job_is_one_sentence_with_the_way_to_start_one(base):
    """An empty host is no fault, but there is nothing to tell."""
    with pytest.raises(NetworkError, match="no job of yours") as raised:
        status.run(options())

    assert "ddetect launch" in raised.value.hint


def test_several_jobs_are_listed_newest_first_and_asked_about(base):
    """We never choose for the user which job is meant."""
    with job(base, "old", "unix:/a", started=1), job(base, "new", "unix:/b", started=2):
        with pytest.raises(UsageError, match="2 jobs of yours run on this host") as raised:
            status.find_target(options())
        assert status.find_target(options("--job", "old")) == "unix:/a"
        assert status.find_target(options("--job", "n")) == "unix:/b"

    listed = str(raised.value).splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["new", "old"]
    assert "torchrun new.py" in listed[0]
    assert raised.value.hint == "Say which: ddetect status --job new"


def test_unknown_job_lists_what_there_is(base):
    """A wrong name is answered with the right ones."""
    with job(base, "night", "unix:/a"), pytest.raises(UsageError, match="no job called 'day'") as raised:
        status.find_target(options("--job", "day"))

    assert "night" in raised.value.hint


def test_run_directory_is_asked_and_a_wrong_one_refused(base, tmp_path):
    """--run-dir takes a run directory and nothing else."""
    with job(base, "night", "unix:/a") as folder:
        assert status.find_target(options("--run-dir", str(folder))) == "unix:/a"
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="is not a run directory"):
        status.find_target(options("--run-dir", str(tmp_path / "other")))


def test_coordinator_that_does_not_listen_yet_names_its_log(base):
    """Between start and listening there is a moment; the log tells if it lasts."""
    with job(base, "night"), pytest.raises(NetworkError, match="does not listen yet") as raised:
        status.find_target(options())

    assert "coordinator.log" in raised.value.hint


def test_directory_of_a_dead_launcher_is_no_job(base):
    """What a killed launcher left behind is not shown as a running job."""
    with job(base, "night", "unix:/a"):
        assert [one.job for one in read_jobs(os.environ)] == ["night"]

    assert read_jobs(os.environ) == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"started_unix": "soon"}'])
def test_unreadable_job_file_is_skipped(base, text):
    """A half-written or foreign file never breaks the command."""
    (base / "x").mkdir()
    (base / "x" / "job.json").write_text(text)

    assert read_jobs(os.environ) == ()


def test_coordinator_from_the_environment_is_used(base, monkeypatch):
    """Every flag has its DDETECT_ twin."""
    monkeypatch.setenv("DDETECT_COORDINATOR", "node-0:1234")

    assert status.find_target(options()) == "node-0:1234"


def test_every_failure_is_ours_to_explain(base):
    """Nothing but DdetectError leaves the command for a host that does not answer."""
    with pytest.raises(DdetectError):
        status.run(options("--coordinator", "unix:/nowhere/c.sock"))


def test_run_directories_are_looked_for_in_memory_first():
    """Without a setting the memory-backed place comes first, then the temporary folder."""
    folders = base_folders({"TMPDIR": "/somewhere"})

    assert [str(folder.parent) for folder in folders] == ["/dev/shm", "/somewhere", "/tmp", "/var/tmp"]
    assert {folder.name for folder in folders} == {f"ddetect-{os.getuid()}"}


def test_launcher_puts_run_directories_where_we_look(base):
    """The launcher and this command agree on the places, though neither imports the other."""
    run, _ = open_run_dir("night", os.environ, shared=False)

    assert Path(run.path).parent == base
    assert Path(run.path).parent in base_folders(os.environ)
