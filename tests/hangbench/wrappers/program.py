"""Go on with the program that stands behind the wrapper on the command line, as if it had been started alone."""

from __future__ import annotations

import os
import runpy
import sys


def run_program() -> None:
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(sys.argv[0])  # programs import what lies beside them
    runpy.run_path(sys.argv[0], run_name="__main__")
