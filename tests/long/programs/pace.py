"""What every program here takes from its command line: how long things last, who does what, and whether it ever hangs.

Enters: the command line and a launcher's environment. Leaves: arguments, in seconds of this run; uneven durations; and
a file that says since when the program hangs. Standard library only. Never here: ddetect, and a job without an end.
"""

import argparse
import ctypes
import json
import os
import random
import signal
import time

import monitoring

LIFETIME_S = 5400
FOREVER_S = 1e6
_PR_SET_PDEATHSIG = 1
_told = argparse.Namespace(hang_at=-1, rank=0, hung="")


def arguments(**options: float | str) -> argparse.Namespace:
    """The options of one program with their defaults; what ends in `_s` is in seconds, and shortened.

    This process ends by itself, whatever happens to it; and whatever watches the job beside it is started here.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--shorter", type=float, default=1.0, help="divide every duration by this")
    parser.add_argument("--rank", type=int, default=1, help="who does what only one rank does, and who hangs")
    parser.add_argument(
        "--hang-at", type=int, default=-1, help="the round at which it hangs for good (never)"
    )
    parser.add_argument("--hung", default="", help="where to write since when it hangs")
    parser.add_argument("--store", default="", help="HOST:PORT of what is far away")
    parser.add_argument("--disk", default="", help="the folder that is slow")
    parser.add_argument("--noise", default="", choices=["", *monitoring.KINDS], help="what goes on beside it")
    for name, default in options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    args = parser.parse_args()
    for name in options:
        if name.endswith("_s"):
            setattr(args, name, getattr(args, name) / args.shorter)
    _told.__dict__.update(vars(args))
    # The alarm needs no GIL. A stopped process does not see it, hence the second line: it goes with its parent.
    signal.alarm(LIFETIME_S)
    die_with_parent()
    if args.noise:
        monitoring.start(args.noise, args.store)
    return args


def die_with_parent(_worker: int = 0) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def my_rank() -> int:
    """As the launcher says: torchrun's, or TensorFlow's, whose chief is the first."""
    if "RANK" in os.environ:
        return int(os.environ["RANK"])
    told = json.loads(os.environ.get("TF_CONFIG", "{}"))
    if not told or told["task"]["type"] == "chief":
        return 0
    return len(told["cluster"].get("chief", [])) + int(told["task"]["index"])


def is_mine() -> bool:
    """Whether this is the rank that does what only one does."""
    return my_rank() == _told.rank


def uneven(seconds: float, spread: float, number: int) -> float:
    """No two rounds are alike, nor two ranks in one; every run of the program is."""
    return seconds * random.Random(f"{my_rank()}/{number}").uniform(1 - spread, 1 + spread)


def strikes(number: int) -> bool:
    """Whether this process hangs in this round. If so it is written down: what follows is the hang."""
    if number != _told.hang_at or not is_mine():
        return False
    if _told.hung:
        with open(f"{_told.hung}.new", "w", encoding="ascii") as file:
            file.write(f"{time.clock_gettime(time.CLOCK_MONOTONIC)}\n")
        os.replace(f"{_told.hung}.new", _told.hung)
    return True
