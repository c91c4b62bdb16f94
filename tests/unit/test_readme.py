"""The README says what is true: its help block is the help, its commands exist, its cheap ones run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ddetect.cli.main import COMMANDS, format_help, main

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[a-z]+)(?:: (?P<rest>[^>]*?))? -->\n)?```\w*\n(?P<text>.*?)```", re.DOTALL
)
BLOCKS = [(found["mark"] or "", found["rest"] or "", found["text"]) for found in BLOCK.finditer(README)]


def commands() -> list[str]:
    """Every `ddetect ...` line of every code block, without its comment."""
    lines = (line.removeprefix("$ ") for _, _, text in BLOCKS for line in text.splitlines())
    return [line.split("  #")[0].strip() for line in lines if re.match(r"(srun )?ddetect [a-z]+( |$)", line)]


def test_help_block_is_the_help():
    """Who reads the README has read `ddetect --help`."""
    (block,) = [text for mark, _, text in BLOCKS if mark == "help"]

    assert block.strip() == format_help().strip()


def test_help_of_the_installed_command_is_that_text():
    """The text in the README is what a person sees who types it."""
    printed = subprocess.run(
        [sys.executable, "-m", "ddetect", "--help"], capture_output=True, text=True, check=True
    ).stdout

    assert printed.strip() == format_help().strip()


@pytest.mark.parametrize("line", commands())
def test_every_command_shown_exists(line):
    """No example names a command that is not there."""
    assert line.removeprefix("srun ").split()[1] in COMMANDS


def runnable() -> list[tuple[str, int]]:
    marked = [(rest, text) for mark, rest, text in BLOCKS if mark == "run"]
    return [(line, int(rest.split()[-1])) for rest, text in marked for line in text.splitlines()]


def test_some_command_is_run():
    """The marker still finds something."""
    assert runnable()


@pytest.mark.parametrize(("line", "code"), runnable())
def test_marked_command_runs_as_told(line, code, tmp_path, monkeypatch):
    """Commands that need no job are run, and end with the exit code that the marker promises."""
    monkeypatch.chdir(tmp_path)
    program, *argv = shlex.split(line)

    assert program == "ddetect"
    assert main(argv) == code


def test_the_first_screen_shows_a_verdict():
    """Before anyone scrolls, they have seen an answer: a rank, a file and a line."""
    first_screen = "\n".join(README.splitlines()[:25])

    assert re.search(r"^rank \d+ .*\b\w+\.py:\d+ \w+", first_screen, re.MULTILINE)


def test_linked_files_exist():
    """No link of the README leads nowhere."""
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target
