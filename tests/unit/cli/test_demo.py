from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ddetect.cli import demo
from ddetect.errors import DdetectError, HostError, UsageError
from ddetect.report.json_ import verdict_json
from ddetect.scenarios import starting
from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.unit.report import incidents

STAGED = SCENARIOS["data_worker_stuck"]

FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""

WRITER = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[1]) / "incident-001"
out.mkdir(parents=True)
(out / "report.txt").write_text("the report")
(out / "verdict.json").write_text(sys.argv[2])
"""


def options(scenario: str = "data_worker_stuck", keep: Path | None = None) -> argparse.Namespace:
    return argparse.Namespace(framework=None, scenario=scenario, keep=keep)


def test_verdict_that_is_the_truth_has_no_differences():
    """The demo succeeds only with the right status, cause, rank and line."""
    verdict = verdict_json(incidents.loader_hang())

    assert demo.differences(verdict, STAGED, Params(rank=2)) == []


def test_wrong_rank_and_wrong_line_are_told():
    """Naming another rank, or another function, is not a success."""
    verdict = verdict_json(incidents.loader_hang())
    verdict["culprits"][0]["where"] = None

    assert demo.differences(verdict, STAGED, Params(rank=1)) == [
        "culprits is [2] and should be [1]",
        "where is {None} and should be {'read_shard'}",
    ]


def test_whole_family_is_ended_with_the_block(tmp_path):
    """A grandchild in a session of its own does not outlive the demo, whatever leaves the block."""
    log = tmp_path / "log"
    family: list[psutil.Process] = []

    def leave_by_interrupt() -> None:
        with demo._running([sys.executable, "-c", FAMILY], log) as launcher:
            while not (text := log.read_text()).endswith("\n"):
                assert launcher.poll() is None
            family.extend((psutil.Process(launcher.pid), psutil.Process(int(text))))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave_by_interrupt()

    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_confirmed_verdict_is_returned_even_if_the_job_ended_meanwhile(tmp_path):
    """What was written before the end counts."""
    said = json.dumps(verdict_json(incidents.loader_hang()))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), said])
    writer.wait()

    verdict, report = demo._await_verdict(writer, tmp_path, tmp_path / "log")

    assert (verdict["stage"], report) == ("confirmed", "the report")


def test_job_that_ends_unconfirmed_shows_its_last_words(tmp_path, capsys):
    """A demo that fails says what the job said, and the suspicion it had."""
    (tmp_path / "log").write_text("ImportError: no torch\n")
    said = json.dumps(verdict_json(incidents.undecided()))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), said])
    writer.wait()

    with pytest.raises(DdetectError, match="ended without a confirmed verdict") as raised:
        demo._await_verdict(writer, tmp_path, tmp_path / "log")

    assert "ImportError: no torch" in str(raised.value)
    assert "suspected: no progress, and rank 7" in capsys.readouterr().err


def test_unknown_scenario_names_the_known():
    """A wrong name is answered with the list; a scenario without a hang is not one to demonstrate."""
    for name in ("nonsense", "healthy"):
        with pytest.raises(UsageError, match=f"no scenario '{name}'") as raised:
            demo.run(options(name))
        assert "data_worker_stuck" in raised.value.hint


def test_missing_torch_names_the_extra(monkeypatch):
    """Without torch the demo says what to install and starts nothing."""
    monkeypatch.setattr(starting, "find_spec", lambda name: None)

    with pytest.raises(HostError) as raised:
        demo.run(options())

    assert raised.value.hint == "pip install 'ddetect[torch]'"


def test_framework_chooses_what_gets_stuck():
    """Each has a scenario of its own to start with; one that is named says by itself what it trains with."""
    told = [demo.chosen(framework, None).name for framework in (None, "torch", "tensorflow")]

    assert told == ["data_worker_stuck", "data_worker_stuck", "tf_generator"]
    assert demo.chosen(None, "tf_python_lock").framework == "tensorflow"


def test_scenario_of_another_framework_is_a_usage_error():
    """The hint shows those of the framework that was asked for, and no others."""
    with pytest.raises(UsageError, match="no scenario 'python_lock' of tensorflow") as raised:
        demo.chosen("tensorflow", "python_lock")

    assert "tf_python_lock" in raised.value.hint
    assert " python_lock" not in raised.value.hint


def test_demo_without_tensorflow_names_the_interpreter_that_is_missing(monkeypatch):
    """One sentence, before anything is started."""
    monkeypatch.setenv("DDETECT_TF_PYTHON", "/nowhere/python")

    with pytest.raises(HostError, match="no interpreter /nowhere/python"):
        demo.run(options("tf_generator"))


def test_unwritable_keep_folder_is_a_usage_error(tmp_path):
    """The folder is tried before anything is started."""
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot write to"):
        demo.run(options(keep=tmp_path / "file" / "x"))


def test_every_scenario_tells_its_story():
    """The first line on the screen says what is about to happen."""
    for scenario in SCENARIOS.values():
        assert len(demo._story(scenario)) > 20
        assert replace(scenario).path.exists()
