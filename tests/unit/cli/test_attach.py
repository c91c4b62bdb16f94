"""`ddetect attach` from the outside: what it says when there is nothing, and when there is a single process."""

from __future__ import annotations

import json
import signal
import uuid

import pytest

from ddetect.cli.main import main
from ddetect.host.proc import read_stat
from tests.unit.attach.test_find import NO_RANK
from tests.unit.stacks.targets import fall_asleep, running, until

pytestmark = pytest.mark.usefixtures("unhurried")

ASLEEP = """
import time
def ask_server():
    time.sleep(600)
print("ready", flush=True)
ask_server()
"""
MOVES = """
import time
def one():
    time.sleep(0.7)
def two():
    time.sleep(0.9)
print("ready", flush=True)
while True:
    one()
    two()
    open("/dev/null", "wb").write(bytes(100000))
"""


def test_nothing_to_attach_to_is_one_sentence_and_exit_code_2(capsys):
    """And the hint says what to type."""
    code = main(["attach", "--match", uuid.uuid4().hex])

    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert "ddetect" in said.err


@pytest.mark.parametrize(
    "wrong", [["--pid", "x"], ["--match", "("], ["--patience", "0"], ["--pid", "1", "--all"]]
)
def test_wrong_flag_is_a_usage_error(wrong):
    """Exit code 2, as everywhere."""
    assert main(["attach", *wrong]) == 2


def test_once_names_the_line_of_a_process_that_sleeps(capsys):
    """Exit code 3, and stdout is the verdict."""
    with running(ASLEEP, env=NO_RANK) as child:
        fall_asleep(child.pid)
        code = main(["attach", "--pid", str(child.pid), "--once", "--json"])

    verdict = json.loads(capsys.readouterr().out)
    assert (code, verdict["status"], verdict["cause"]) == (3, "hang", "user_code")
    assert verdict["culprits"][0]["where"]["function"] == "ask_server"
    assert verdict["stage"] == "suspected"


def test_once_keeps_its_evidence_where_it_is_told_to(capsys, tmp_path, monkeypatch):
    """An incident folder that `ddetect diagnose` judges again; without --out a look leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    with running(ASLEEP, env=NO_RANK) as child:
        fall_asleep(child.pid)
        main(["attach", "--pid", str(child.pid), "--once"])
        before = list(tmp_path.iterdir())
        main(["attach", "--pid", str(child.pid), "--once", "--json", "--out", "kept"])

    assert before == []
    capsys.readouterr()
    assert main(["diagnose", "kept/incident-001", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["cause"] == "user_code"


def test_once_finds_a_process_that_works_healthy(capsys):
    """Exit code 0: functions change and bytes move."""
    with running(MOVES, env=NO_RANK) as child:
        code = main(["attach", "--pid", str(child.pid), "--once", "--json"])

    assert (code, json.loads(capsys.readouterr().out)["status"]) == (0, "healthy")


def test_once_says_at_once_that_a_process_is_stopped(capsys):
    """The kernel's word is proof enough: confirmed."""
    with running(ASLEEP, env=NO_RANK) as child:
        fall_asleep(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "T")
        code = main(["attach", "--pid", str(child.pid), "--once", "--json"])

    verdict = json.loads(capsys.readouterr().out)
    assert (code, verdict["cause"], verdict["stage"]) == (3, "process_stopped", "confirmed")
