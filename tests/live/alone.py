"""A scenario as its user would start it: plain torchrun, nothing of ddetect. For `ddetect attach`.

Enters: a scenario and its parameters. Leaves: the running job, ended with all its processes when the block is left.
Never here: ddetect's own processes, an opinion.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from ddetect.scenarios.catalogue import Params, Scenario, command


@contextmanager
def running_alone(scenario: Scenario, params: Params) -> Iterator[subprocess.Popen[bytes]]:
    """The job, in a session of its own."""
    job = subprocess.Popen(
        command(scenario, params),
        stdin=subprocess.PIPE,  # never written to and never closed: a debugger prompt waits for it
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3"},
        start_new_session=True,
    )
    try:
        yield job
    finally:
        for process in family(job.pid):
            try:
                process.kill()
            except psutil.Error:
                pass  # it ended by itself
        job.wait()
        if job.stdin:
            job.stdin.close()


def family(pid: int) -> list[psutil.Process]:
    """A process and all that descends from it; nothing when it is gone."""
    try:
        return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []
