"""The frame of the command line: which command, which error, which exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddetect.cli import launch
from ddetect.cli.main import COMMANDS, main

NOT_FOR_LAUNCH = ("grpc", "numpy", "google.protobuf", "rich", "psutil", "ddetect.model")


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """`ddetect --help` is the table of contents."""
    assert main(["--help"]) == 0
    text = capsys.readouterr().out

    assert all(f"  {name} " in text for name in COMMANDS)
    assert all(f"\n  {code}  " in text for code in range(5))
    assert "ddetect launch torchrun" in text


def test_no_command_shows_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing on stdout: that is for verdicts."""
    assert main([]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("word", "remedy"),
    [("lanch", "ddetect launch"), ("torchrun", "ddetect launch torchrun"), ("--fast", "--help")],
)
def test_unknown_command_gets_a_remedy(word: str, remedy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the finger is answered with what was meant."""
    assert main([word]) == 2
    message, blank, hint = capsys.readouterr().err.splitlines()

    assert word in message
    assert blank == ""
    assert remedy in message + hint


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["--patience", "soon", "true"],
        ["--patience", "-1", "true"],
        ["--on-hang", "explode", "true"],
        ["--on-hang", "exec:", "true"],
        ["--notify", "slack", "true"],
        ["--coordinator", "node-0", "true"],
        ["--frobnicate", "true"],
        ["--pat", "5", "true"],
    ],
)
def test_wrong_launch_flag_is_a_sentence_and_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, a blank line, a remedy; nothing is started."""
    assert main(["launch", *words]) == 2
    errors = capsys.readouterr().err.splitlines()

    assert len(errors) == 3
    assert errors[1] == ""


def test_flags_behind_the_program_are_the_jobs(tmp_path: Path) -> None:
    """One leading `--` is ours; everything else is left as it is."""
    job = "import sys; print(sys.argv[1:])"
    words = ["--quiet", "--", sys.executable, "-c", job, "--out", "x", "--", "--help"]
    done = subprocess.run(
        [sys.executable, "-m", "ddetect", "launch", *words], capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, b"['--out', 'x', '--', '--help']\n")


def test_every_launch_flag_has_an_environment_twin() -> None:
    """Pods are configured by environment."""
    import argparse

    environ = {
        "DDETECT_OUT": "o", "DDETECT_PATIENCE": "7", "DDETECT_ON_HANG": "stop", "DDETECT_NOTIFY": "http://n",
        "DDETECT_COORDINATOR": "h:1", "DDETECT_SIGNATURES": "s", "DDETECT_QUIET": "1", "DDETECT_NOTE_AFTER": "9",
        "DDETECT_STARTUP_PATIENCE": "8",
    }  # fmt: skip
    parser = argparse.ArgumentParser()
    launch.add_arguments(parser, environ)
    args = vars(parser.parse_args(["true"]))
    flags = [action.dest for action in parser._actions if action.dest not in ("help", "command")]

    assert {f"DDETECT_{flag.upper()}" for flag in flags} == set(environ)
    assert [args[flag] for flag in flags] == ["o", 7.0, 8.0, "stop", "http://n", 9.0, "h:1", "s", True]


def test_launch_imports_nothing_that_may_be_broken(tmp_path: Path) -> None:
    """A broken grpc or numpy still launches the job."""
    code = (
        "import sys\nfor name in sys.argv[1].split(','): sys.modules[name] = None\n"
        "from ddetect.cli.main import main\nsys.exit(main(['launch', '--out', sys.argv[2], 'sh', '-c', 'exit 9']))"
    )
    words = [sys.executable, "-c", code, ",".join(NOT_FOR_LAUNCH), str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, check=False)

    assert done.returncode == 9
    assert b"Traceback" not in done.stderr


def test_command_with_a_broken_import_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half an installation is ours to explain, not a traceback."""
    monkeypatch.setitem(sys.modules, "ddetect.cli.status", None)

    assert main(["status"]) == 1
    assert "pip install" in capsys.readouterr().err


def test_closed_pipe_is_quiet() -> None:
    """`ddetect --help | head -0` is nobody's error."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "ddetect", "--help"], stdout=write_end, stderr=subprocess.PIPE, check=False
    )
    os.close(write_end)

    assert (done.returncode, done.stderr) == (141, b"")


def test_closed_stdout_does_not_cost_the_jobs_exit_code(tmp_path: Path) -> None:
    """`ddetect launch ... >&-`: Python has no sys.stdout then."""
    words = [sys.executable, "-m", "ddetect", "launch", "--out", str(tmp_path / "out"), "sh", "-c", "exit 9"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE, check=False)

    assert (done.returncode, done.stderr) == (9, b"")
