"""torch.distributed.debug in every rank, on a port of the bench's choice."""

from __future__ import annotations

import os

from program import run_program
from torch.distributed.debug import start_debug_server

start_debug_server(port=int(os.environ["HANGBENCH_PORT"]))
run_program()
