"""The `ddetect` command: picks the file of a command, imports only that one, and turns errors into sentences.

Enters: the command line. Leaves: an exit code; on an error its message, a blank line and the hint, on stderr. This is
the one place that catches DdetectError.
Never here: what any command does.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ddetect import __version__
from ddetect.errors import DdetectError, UsageError

COMMANDS = {
    "launch": "Run a training job and watch it.",
    "attach": "Watch a job that was started without ddetect.",
    "status": "Show what every rank of a running job is doing.",
    "diagnose": "Judge saved evidence (.ddsnap) again.",
    "demo": "Watch ddetect find a stuck rank in a small job of its own.",
    "doctor": "Check what works on this host and how to fix what does not.",
    "agent": "Watch the ranks of one node (launch starts it).",
    "coordinator": "Judge what the agents of a job report (launch starts it).",
}
INTERRUPTED = 130
BROKEN_PIPE = 141

HELP = """\
usage: ddetect COMMAND [options]

Point ddetect at a training job, change nothing in its code; when the job stops moving it names the rank, the line
and the reason.

commands:
{commands}

example:
  ddetect launch torchrun --nproc-per-node 8 train.py

options:
  -h, --help     show this help; `ddetect COMMAND --help` shows a command's own
  --version      show the version

exit codes:
  0  healthy
  1  ddetect failed
  2  usage: a wrong command, flag or file
  3  any verdict but healthy or undecided
  4  undecided
`ddetect launch` returns the job's own exit code (128+N when signal N ended it)."""


class _Parser(argparse.ArgumentParser):
    """Complains with a sentence and a remedy instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", f"See `{self.prog} --help`.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        if words[:1] != ["launch"]:  # its code is the job's, whatever became of our stdout
            _flush()
        return code
    except DdetectError as error:
        print(f"{error}\n\n{error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit: give it a place to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except SystemExit as leaving:  # argparse, after --help
        return leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0


def _flush() -> None:
    """Meet a closed pipe here; Python leaves sys.stdout None where there is no descriptor 1."""
    if sys.stdout is not None:
        sys.stdout.flush()


def entry() -> None:
    """The console script."""
    sys.exit(main())


def format_help() -> str:
    """The text of `ddetect --help`."""
    width = max(map(len, COMMANDS))
    return HELP.format(commands="\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()))


def _dispatch(words: list[str]) -> int:
    if not words:
        print(format_help(), file=sys.stderr)
        return UsageError.exit_code
    name, rest = words[0], words[1:]
    if name in ("-h", "--help", "help"):
        print(format_help())
        return 0
    if name == "--version":
        print(f"ddetect {__version__}")
        return 0
    if name not in COMMANDS:
        raise _unknown(name)
    try:
        module = importlib.import_module(f"ddetect.cli.{name}")
    except ImportError as error:
        raise DdetectError(
            f"ddetect {name} cannot start: {error}.",
            "The installation is incomplete: run `pip install --force-reinstall ddetect`.",
        ) from error
    parser = _Parser(
        prog=f"ddetect {name}",
        description=COMMANDS[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    code: int = module.run(parser.parse_args(rest))
    return code


def _unknown(name: str) -> UsageError:
    if name.startswith("-"):
        return UsageError(
            f"ddetect has no option {name} here.", "Options come behind a command: see `ddetect --help`."
        )
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    if close:
        return UsageError(f"ddetect has no command {name!r}; did you mean `ddetect {close[0]}`?")
    return UsageError(
        f"ddetect has no command {name!r}: there are {', '.join(COMMANDS)}.",
        f"To run a program under ddetect: ddetect launch {name} ...",
    )
