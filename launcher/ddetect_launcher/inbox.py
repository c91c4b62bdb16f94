"""The next signal that was sent to us, or none when the time is up.

Enters: signals that are blocked. Leaves: their siginfo, one at a time. `signal.sigtimedwait` must not wait here: when
the launcher is stopped while it waits, and continued after the time is up, CPython (3.10 to 3.13) returns a siginfo
that nobody has filled. A number made of old memory went to the witness, which died of it, or to the job. So a signalfd
says when to look, and the signal is taken without waiting.
Never here: handlers, what a signal means.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection

_SIGSET_BYTES = 128
_WITHOUT_S = 0.05  # between two looks where there is no signalfd


class Inbox:
    """Signals of these numbers, which must be blocked."""

    def __init__(self, numbers: Collection[int]) -> None:
        self._numbers = frozenset(numbers)
        self._watch: select.poll | None = None
        self._handle = -1
        try:
            self._handle = _open_signalfd(self._numbers)
            self._watch = select.poll()
            self._watch.register(self._handle, select.POLLIN)
        except (
            OSError,
            ImportError,
            AttributeError,
        ):  # a Python without ctypes, a C library without signalfd
            pass

    def next(self, within_s: float) -> signal.struct_siginfo | None:
        """The next one; None when none came in time."""
        deadline = time.monotonic() + within_s
        while True:
            got = signal.sigtimedwait(self._numbers, 0)
            left_s = deadline - time.monotonic()
            if got is not None or left_s <= 0:
                return got
            if self._watch is not None:
                self._watch.poll(left_s * 1000)
            else:
                time.sleep(min(left_s, _WITHOUT_S))

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _open_signalfd(numbers: Collection[int]) -> int:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    wanted = ctypes.create_string_buffer(_SIGSET_BYTES)
    library.sigemptyset(wanted)
    for number in numbers:
        library.sigaddset(wanted, number)
    handle: int = library.signalfd(-1, wanted, os.O_CLOEXEC | os.O_NONBLOCK)  # SFD_* have these values
    if handle < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return handle
