"""`ddetect launch` with stand-ins for the companions. No test is in here.

Usage: driver.py MODE JOURNAL OUT PROGRAM ARGS...
"""

from __future__ import annotations

import os
import sys

from ddetect_launcher.launch import launch
from ddetect_launcher.options import Commands, Options

mode, journal, out, *job = sys.argv[1:]
standin = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin.py")
commands = Commands(
    agent=(sys.executable, standin, "agent", mode, journal),
    coordinator=(sys.executable, standin, "coordinator", mode, journal),
)
sys.exit(launch(job, Options(out=out), commands=commands))
