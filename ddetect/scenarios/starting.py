"""The command line that starts a scenario, and the interpreter that it takes.

Enters: a scenario and its parameters. Leaves: words for `subprocess`; or one sentence about what is missing.
Never here: a process, a framework.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from ddetect.errors import HostError
from ddetect.scenarios.scenario import FOLDER, TENSORFLOW_FOLDER, Params, Scenario


def tensorflow_python(environ: Mapping[str, str] = os.environ) -> str:
    """The interpreter of TensorFlow's jobs: TensorFlow lives in an environment of its own, as it often has to."""
    beside = Path(sys.prefix).parent / ".venv-tf" / "bin" / "python"
    return environ.get("DDETECT_TF_PYTHON") or str(beside)


def require(scenario: Scenario) -> None:
    """Say what is missing before a job is started that cannot run."""
    if scenario.framework == "torch" and find_spec("torch") is None:
        raise HostError(
            "the demo trains with torch, which is not installed here", hint="pip install 'ddetect[torch]'"
        )
    if scenario.framework == "tensorflow" and not os.access(tensorflow_python(), os.X_OK):
        raise HostError(
            f"this trains with TensorFlow, and there is no interpreter {tensorflow_python()}",
            hint="Set DDETECT_TF_PYTHON to a Python that has tensorflow and tf_keras; in a clone: make .venv-tf.",
        )


def command(scenario: Scenario, params: Params) -> list[str]:
    """The job's command line: its launcher, the program, and what it is to do."""
    options = [
        str(scenario.path), "--rank", str(params.rank), "--at", str(params.at), "--step-ms", str(params.step_ms),
        *params.extra,
    ]  # fmt: skip
    if scenario.framework == "tensorflow":
        return _with_tensorflow(scenario, params, options)
    if scenario.starts_itself:
        return [sys.executable, *options, "--world-size", str(params.world_size)]
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(params.world_size), *scenario.torchrun
    ]  # fmt: skip
    if scenario.own_network:
        # Not --standalone: its rendezvous keeps a connection alive, and would end the job before anyone can look.
        alone = ["--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", "29500"]
        return [sys.executable, str(FOLDER / "in_own_network.py"), *torchrun, *alone, *options]
    return [*torchrun, "--standalone", *options]


def _with_tensorflow(scenario: Scenario, params: Params, options: list[str]) -> list[str]:
    """One process with replicas, or the starter of several workers."""
    size = str(params.world_size)
    if scenario.replicas:
        return [tensorflow_python(), *options, "--replicas", size]
    starter = [tensorflow_python(), str(TENSORFLOW_FOLDER / "start_workers.py"), "--workers", size]
    chief = ["--chief"] if scenario.chief else []
    absent = ["--without", str(params.rank)] if scenario.absent else []
    return [*starter, *chief, *absent, *options]
