"""One rank runs a command that does not end; the others wait for that rank."""

import os
import subprocess
import sys

import training

COMMAND = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()"]
reads, _writes = os.pipe()  # nobody writes; the command ends when this rank does


def sync_bucket() -> None:
    subprocess.run(COMMAND, stdin=reads, check=True)  # <- stuck here


training.run(sync_bucket)
