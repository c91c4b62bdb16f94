"""What can go wrong, by whose fault it is. Each error carries its remedy.

Raised low with facts, caught once in `ddetect.cli`, which prints the message, a blank line and the hint.
"""

from __future__ import annotations


class DdetectError(Exception):
    """Ours, unless a subclass says otherwise."""

    exit_code = 1
    hint = "This looks like a fault of ddetect; please report it with the text above."

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class UsageError(DdetectError):
    """The command line or a file given on it is not what we take."""

    exit_code = 2
    hint = "See `ddetect --help`."


class HostError(DdetectError):
    """This machine does not let us: ptrace, disk, port."""

    hint = "Run `ddetect doctor` to see what works on this host."


class NetworkError(DdetectError):
    """The other side does not answer, or not to us."""

    hint = "Check the address, the token (DDETECT_TOKEN) and that the job is still running."


class BadSnapshot(UsageError):
    """A .ddsnap file that is not one, is cut off, or comes from a newer ddetect."""

    hint = "Copy the file again from its incident folder; it must be complete."
