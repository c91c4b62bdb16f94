"""A user's own stack patterns (--signatures): a path enters, the checked text of the file leaves.

Never here: what a pattern means (ddetect.frameworks.patterns), and whom it fits (ddetect.correlate).
"""

from __future__ import annotations

from ddetect.errors import UsageError
from ddetect.frameworks.patterns import HINT, parse_patterns


def read_patterns(path: str | None) -> str:
    """The text of a user's pattern file, checked; nothing without one. Raises UsageError when the file is no good."""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the signature file {path}: {error}", HINT) from error
    parse_patterns(text, path)
    return text
