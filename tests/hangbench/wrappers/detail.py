"""For TORCH_DISTRIBUTED_DEBUG=DETAIL: a timeout of seconds instead of half an hour, and a word before DDP segfaults.

The default is changed where `init_process_group` and `new_group` read it: the same as `timeout=` in the user's calls.
"""

from __future__ import annotations

import datetime
import os
import sys

import torch.distributed.distributed_c10d as c10d
from program import run_program
from torch.nn.parallel import DistributedDataParallel


def refuse(self: object, *args: object, **kwargs: object) -> None:
    print(os.environ["HANGBENCH_NO_DDP"], file=sys.stderr, flush=True)
    os._exit(1)


c10d.default_pg_timeout = datetime.timedelta(seconds=float(os.environ["HANGBENCH_TIMEOUT_S"]))
DistributedDataParallel.__init__ = refuse  # type: ignore[method-assign]
run_program()
