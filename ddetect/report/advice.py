"""What to do, per cause: one or two short imperative sentences with the concrete process. Never here: deciding."""

from __future__ import annotations

from ddetect.model import Cause, Culprit, Names
from ddetect.model.deeds import StuckIn
from ddetect.report.words import PLAIN

_GENERAL = {
    Cause.DATA_LOADING: "Look at the line named: what does the dataset wait for there?",
    Cause.PYTHON_LOCK: "Find the thread that holds the lock (see the evidence) and release it there.",
    Cause.GIL_HELD: "Release the GIL around the C call named, or call it with a timeout.",
    Cause.FILE_IO: "Check the file system or the file lock that the process waits for.",
    Cause.BUILDING: "Let it finish if this is the first run; else look for a stale lock file in the build cache.",
    Cause.USER_CODE: "Look at the line named: the other ranks cannot go on until it returns.",
    Cause.PROCESS_STOPPED: "Let the process go on, or find out who stopped it.",
    Cause.LEFT_EARLY: "Give every rank the same number of steps (drop_last, an even sampler, or DDP's join()).",
    Cause.RENDEZVOUS: "Start the missing ranks, or look at the line at which they wait before init_process_group.",
    Cause.COLLECTIVE_MISMATCH: "Make every rank call the same operation here, with the same shape, dtype and root.",
    Cause.GROUP_ORDER_DEADLOCK: "Make every rank enter the groups in the same order.",
    Cause.P2P_DEADLOCK: "Let one side send first and receive second, or use batch_isend_irecv.",
    Cause.ALL_ENTERED_NONE_LEFT: "Look below Python: network, firewalls, NICs, NCCL or gloo settings.",
    Cause.DEVICE_STUCK: "Look at the device of the rank named: nvidia-smi, dmesg for Xid errors, its NIC.",
    Cause.KILLED_BY_SIGNAL: "Look for who killed it: `dmesg` (OOM killer), the scheduler's log, a native crash.",
    Cause.PYTHON_EXCEPTION: "Fix the exception; the errors of the other ranks follow from it.",
}


def advise(
    cause: Cause | None,
    culprits: tuple[Culprit, ...],
    held: tuple[StuckIn, ...] = (),
    names: Names = PLAIN,
) -> tuple[str, ...]:
    """What the reader can do now, most useful first."""
    if cause is None:
        return ("Run `ddetect doctor` on the node to see what could not be read, and why.",)
    lines = [_GENERAL[cause]] if cause in _GENERAL else []
    for culprit in culprits[:3]:
        pid = culprit.process.pid if culprit.process else culprit.pid
        on = f" on {culprit.host}" if culprit.host else ""
        if pid is None or cause in (
            Cause.KILLED_BY_SIGNAL,
            Cause.PYTHON_EXCEPTION,
            Cause.COLLECTIVE_MISMATCH,
        ):
            continue
        if cause is Cause.PROCESS_STOPPED:
            lines.append(f"Type `kill -CONT {pid}`{on}.")
        elif cause in (Cause.DATA_LOADING, Cause.USER_CODE, Cause.PYTHON_LOCK, Cause.GIL_HELD):
            lines.append(f"See it yourself{on}: `py-spy dump --pid {pid}`.")
        elif cause is Cause.FILE_IO:
            lines.append(f"See what it has open{on}: `ls -l /proc/{pid}/fd` and `cat /proc/{pid}/stack`.")
        if lines and culprit is culprits[0] and cause is not Cause.PROCESS_STOPPED:
            break
    return tuple(lines)
