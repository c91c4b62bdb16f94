"""`python -m ddetect`."""

from ddetect.cli.main import entry

entry()
