"""Words of a run without the folders of the machine that it ran on. Pure."""

from __future__ import annotations

import re

_PATH = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+([\w.+#-]+)")


def text_of_nobody(text: str) -> str:
    """A text without the folders that are in it."""
    return _PATH.sub(r"/job/\1", text)
