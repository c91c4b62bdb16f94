"""Run a command in a network namespace of its own, in which loopback is all there is.

Enters: a command line. Leaves: that command, in this process. Never here: a change to the host's network.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40


def set_loopback(up: bool) -> None:
    flags = _IFF_UP | _IFF_RUNNING if up else 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def enter() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    namespaces = _CLONE_NEWNET if os.geteuid() == 0 else _CLONE_NEWNET | _CLONE_NEWUSER
    if libc.unshare(namespaces) != 0:
        sys.exit(f"in_own_network: {os.strerror(ctypes.get_errno())} (needs root, or user namespaces)")
    set_loopback(up=True)


if __name__ == "__main__":
    enter()
    os.execvp(sys.argv[1], sys.argv[1:])
