"""Make the Flight Recorder readable from outside: torch's own worker server in this rank, its port in a file.

The handler behind it is C++: it answers while the program is stuck, also when the GIL is held.
"""

from __future__ import annotations

import os
from pathlib import Path

from program import run_program
from torch._C._distributed_c10d import _WorkerServer

server = _WorkerServer("::", 0)
Path(os.environ["HANGBENCH_FOLDER"], f"port_{os.environ['RANK']}").write_text(str(server.port))
run_program()
