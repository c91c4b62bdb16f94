"""Stop a job, or a job and all that watches it, for a while; or one rank of it for good. Done to pids that we started.

Enters: a launcher's pid and a case. Leaves: processes that go on as if nothing had been; and, of a rank that stays
stopped, since when. Never here: a process that is not below that launcher.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tests.hangbench.clock import ranks_under
from tests.live.ends import family_of
from tests.long.case import Case, Frozen


def freeze_later(case: Case, launcher: int, shorter: float, hung: Path) -> Callable[[], None]:
    """Do what the case wants, in a thread of its own, when its time has come; what is returned ends that."""
    over = threading.Event()
    if case.frozen is Frozen.NOBODY:
        return over.set
    factor = shorter * case.shorter

    def run() -> None:
        if over.wait(case.frozen_at_s / factor):
            return
        stopped = _chosen(case, launcher)
        if case.frozen is Frozen.RANK:
            hung.write_text(f"{time.clock_gettime(time.CLOCK_MONOTONIC)}\n")
        _send(signal.SIGSTOP, stopped)
        if case.frozen is not Frozen.RANK:
            over.wait(case.frozen_for_s / factor)
            _send(signal.SIGCONT, stopped)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()

    return end


def _chosen(case: Case, launcher: int) -> list[psutil.Process]:
    job, ours = family_of(launcher)
    if case.frozen is Frozen.JOB:
        return job
    if case.frozen is Frozen.ALL:
        return [psutil.Process(launcher), *ours, *job]
    return [psutil.Process(pid) for pid, rank in ranks_under(launcher).items() if rank == case.rank]


def _send(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        try:
            process.send_signal(number)  # psutil compares start times first
        except psutil.Error:
            pass  # it has ended
