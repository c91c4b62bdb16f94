"""The command line that starts a case, and what this machine lacks for it.

Enters: a case, where its store and its disk are, how much shorter it is to be. Leaves: words for `subprocess`; or a
sentence. Never here: a process, a framework.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from ddetect.scenarios.scenario import TENSORFLOW_FOLDER
from ddetect.scenarios.starting import tensorflow_python
from tests.long.case import Case, Started

RANKS = 2


def command(case: Case, *, shorter: float, store: str, disk: Path, hung: Path) -> list[str]:
    """The job's command line: its launcher, the program, and what it is to do."""
    noise = ["--noise", case.noise] if case.noise else []
    program = [
        str(case.path), "--rank", str(case.rank), *case.options, *noise, "--shorter", str(case.shorter * shorter),
        "--store", store, "--disk", str(disk), "--hung", str(hung),
    ]  # fmt: skip
    if case.started is Started.TORCHRUN:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [*torchrun, "--nproc-per-node", str(RANKS), *program]
    if case.started is Started.ALONE:
        return [tensorflow_python(), *program]
    starter = [tensorflow_python(), str(TENSORFLOW_FOLDER / "start_workers.py"), "--workers", str(RANKS)]
    return [*starter, *(["--chief"] if case.started is Started.CHIEF else []), *program]


def lacking(case: Case) -> str:
    """What must be installed before this case can be run; nothing if it can."""
    if case.tensorflow and not os.access(tensorflow_python(), os.X_OK):
        return "TensorFlow: set DDETECT_TF_PYTHON to a Python that has it; in a clone: make .venv-tf"
    if not case.tensorflow and find_spec("torch") is None:
        return "torch: pip install 'ddetect[torch]'"
    if case.needs_cc and shutil.which("cc") is None:
        return "a C compiler called cc: the program builds an extension of its own"
    return ""
