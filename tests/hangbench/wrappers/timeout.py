"""A timeout of seconds instead of torch's half an hour, as `timeout=` in the user's calls would set it.

The default is changed where `init_process_group` and `new_group` read it.
"""

from __future__ import annotations

import datetime
import os

import torch.distributed.distributed_c10d as c10d
from program import run_program

c10d.default_pg_timeout = datetime.timedelta(seconds=float(os.environ["HANGBENCH_TIMEOUT_S"]))
run_program()
