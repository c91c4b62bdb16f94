"""What a run of the bench was made with, for whoever wants to repeat it: command, commit, machine. Never a path."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def command_of(words: list[str], program: str = "tests.hangbench") -> str:
    """The command line without the folder that one person chose for the output."""
    kept, skip = list[str](), False
    for word in words:
        if not skip and word != "--out" and not word.startswith("--out="):
            kept.append(word)
        skip = word == "--out"
    return " ".join([f"python -m {program}", *kept])


def commit() -> str:
    """The code that ran; `+` if it was changed since that commit."""
    try:
        return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> str:
    """What it ran on, without naming it."""
    return f"{os.cpu_count()} cores, no GPU, Python {platform.python_version()}"


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
