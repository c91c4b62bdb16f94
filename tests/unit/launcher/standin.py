"""Plays the agent or the coordinator: says when it starts and ends, and obeys members.lock. No test is in here.

Usage: standin.py ROLE MODE JOURNAL [what the launcher adds]. Modes: stay, crash, last-words, deaf.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

role, mode, journal, *rest = sys.argv[1:]
run_dir = rest[rest.index("--run-dir") + 1]


def note(what: str) -> None:
    line = f"{role} {what} {os.getpid()}\n".encode()
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line)
    os.close(handle)


def leave(number: int, _frame: object) -> None:
    if mode == "deaf":
        return
    if mode == "last-words" and role == "coordinator":
        with open(os.path.join(run_dir, "alarm-002.txt"), "w") as alarm:
            alarm.write("second alarm\nof two lines\n")
        with open(os.path.join(run_dir, "summary.txt"), "w") as summary:
            summary.write("ddetect: see incident-001\n")
    note("told")
    sys.exit(0)


signal.signal(signal.SIGTERM, leave)
if mode == "crash":
    note("crashed")
    sys.stderr.write("E1116 02:36:47.309736   25545 add_port.cc:83] chatter of a library\n")
    sys.exit("ddetect: no grpc in this house.\n\nInstall it.")
if mode == "last-words" and role == "coordinator":
    with open(os.path.join(run_dir, "alarm-001.txt"), "w") as alarm:
        alarm.write("first alarm\n")
if role == "coordinator":
    with open(os.path.join(run_dir, "status.txt"), "w") as status:
        status.write("ddetect: all is well\n")
note("started")
while True:
    time.sleep(0.05)
    try:
        lock = os.open(os.path.join(run_dir, "members.lock"), os.O_RDWR)
    except OSError:
        break
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except OSError:
        pass
    finally:
        os.close(lock)
note("alone")
