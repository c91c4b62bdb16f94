"""Plays the agent or the coordinator: says when it starts and ends, and obeys members.lock. No test is in here.

Usage: standin.py ROLE MODE JOURNAL [what the launcher adds]. Modes: stay, crash, last-words, deaf, no-ears.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
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
    hear()
    note("told")
    sys.exit(0)


signal.signal(signal.SIGTERM, leave)
ears = None
if role == "agent" and mode != "no-ears":
    ears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ears.bind(os.path.join(run_dir, f"agent.sock.{os.getpid()}"))
    os.replace(os.path.join(run_dir, f"agent.sock.{os.getpid()}"), os.path.join(run_dir, "agent.sock"))
    ears.setblocking(False)
    heard = set()


def hear() -> None:
    """Note each word once: "signal 15", "exit_code 3", "status 768 of the launcher's child"."""
    while ears is not None:
        try:
            word = json.loads(ears.recv(4096))
        except BlockingIOError:
            return
        if word["at_ns"] not in heard:
            heard.add(word["at_ns"])
            what = next(key for key in ("status", "exit_code", "signal") if key in word)
            note(f"heard:{what}={word[what]}:{word['pid']}")


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
    hear()
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
