"""A helper that asks for work again and again and has none: a tenth of a core, until its user ends."""

import os
import select
import sys
import time

while True:
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        pass
    readable, _, _ = select.select([sys.stdin], [], [], 0.18)
    if readable and not os.read(sys.stdin.fileno(), 4096):
        break
