"""What the kernel says of a process that was waited for already, through a pidfd that was opened while it lived.

Enters: a pidfd. Leaves: a wait status, or None: Linux tells it since 6.15, and only once the parent has waited for the
zombie (until then /proc has it, proc.read_exit_status).
Never here: opening or closing a pidfd; signals.
"""

from __future__ import annotations

import fcntl
import struct

# <linux/pidfd.h>: PIDFD_GET_INFO is _IOWR(0xFF, 11, struct pidfd_info). The struct grows with the kernel; its first 64
# bytes stay: the mask of what is asked and told, the cgroup, eleven ids, the wait status.
_INFO = struct.Struct("=QQ11Ii")
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_EXIT = 1 << 3


def read_reaped_status(handle: int) -> int | None:
    """How the process ended, as wait() told its parent; None while it lives or is a zombie, or on an older kernel."""
    asked = bytearray(_INFO.pack(_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(handle, _GET_INFO, asked)
    except OSError:
        return None
    told, *_, status = _INFO.unpack(asked)
    return int(status) if told & _EXIT else None
