"""One run: what breaks becomes a failed outcome, what is old is gone, what is kept is counted by one rule."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from ddetect.scenarios.catalogue import SCENARIOS, Params, Scenario
from tests.hangbench.__main__ import failed_score, score_in
from tests.hangbench.draw import drawn
from tests.hangbench.evidence import evidence_in
from tests.hangbench.made_with import command_of
from tests.hangbench.one import make_empty, outcome_of
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.tool import KEPT, Tool


def breaks(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    raise OSError("no py-spy")


TOOL = Tool("T", lambda: "1", "s", breaks)


def test_a_tool_that_breaks_has_failed(tmp_path):
    """Its traceback says why."""
    assert "no py-spy" in outcome_of(TOOL, SCENARIOS["user_sleep"], Params(), tmp_path).failed


def test_a_pause_that_only_the_probe_hears_is_not_held_against_others(tmp_path):
    """The program tells nobody else of it."""
    paused = SCENARIOS["healthy_paused"]

    assert outcome_of(TOOL, paused, Params(), tmp_path).cannot
    assert not outcome_of(replace(TOOL, hears_pause=True), paused, Params(), tmp_path).cannot


def test_nothing_of_an_earlier_run_is_left(tmp_path):
    """An old score would be taken for the new one."""
    (tmp_path / "score.json").write_text("{}")
    (tmp_path / "out").mkdir()

    make_empty(tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert score_in(tmp_path) is None


def test_a_run_without_a_score_is_a_failed_one():
    """The bench goes on, and the table counts it."""
    told = failed_score("healthy", "pyspy", "1", 3, "killed")

    assert (told["right"], told["outcome"]["failed"], told["params"]["rank"]) == (
        False,
        "killed",
        drawn(SCENARIOS["healthy"], "1", min_world=3).rank,
    )


def test_evidence_is_a_file_with_a_stack_or_a_dump_and_a_log_only_with_a_ranks_stack(tmp_path):
    """Whatever tool left it; words alone are none."""
    kept = tmp_path / KEPT
    kept.mkdir()
    (kept / "rank-0.txt").write_text('Thread 1: "MainThread"\n    ask (train.py:9)\n')
    (kept / "rank-1.txt").write_text("Error: Permission denied")
    (kept / "rank_2").write_bytes(b"a pickle")
    (tmp_path / "stderr").write_text('[rank1]: Traceback:\n[rank1]:   File "train.py", line 9, in ask\n')
    (tmp_path / "stdout").write_text("monitors of ranks [0, 1]: did not get a heartbeat\n")

    assert evidence_in(tmp_path, log=False) == "kept/rank-0.txt, kept/rank_2"
    assert evidence_in(tmp_path, log=True) == "kept/rank-0.txt, kept/rank_2, stderr"


def test_the_command_to_repeat_a_run_names_no_folder():
    """Both ways to write the option."""
    assert command_of(["all", "--out", "/a/b", "--lanes", "3"]) == "python -m tests.hangbench all --lanes 3"
    assert command_of(["--out=/a/b"]) == "python -m tests.hangbench"


def test_a_run_that_is_told_twice_to_end_still_ends_its_job():
    """Whoever ends the bench with its group tells each run once, and the kernel tells it again."""
    program = f"""
import sys, time
from tests.hangbench.one import end_with_parent
end_with_parent({os.getpid()})
try:
    print("begun", flush=True)
    time.sleep(60)
finally:
    print("ending", flush=True)
    sys.stdin.readline()  # the second signal has come
    print("the job is ended", flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        for word in ("begun", "ending"):
            assert run.stdout.readline().strip() == word
            run.send_signal(signal.SIGTERM)
        run.stdin.write("\n")
        run.stdin.close()

        assert run.stdout.readline().strip() == "the job is ended"
    assert run.returncode == 143
