"""One rank wants a file lock that another process holds; the others wait for that rank."""

import fcntl
import subprocess
import sys
import tempfile

import training

HOLDER = """
import fcntl, sys
lock = open(sys.argv[1])
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def open_cache() -> None:
    with tempfile.NamedTemporaryFile(prefix="cache-") as cache:
        # The holder ends when this rank does: its standard input closes.
        holder = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", HOLDER, cache.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        fcntl.flock(cache, fcntl.LOCK_EX)  # <- stuck here


training.run(open_cache)
