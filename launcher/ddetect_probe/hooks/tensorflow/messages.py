"""What TensorFlow puts before the reason of an error: which node it was, and where that was made, for pages.

Enters: an error's message. Leaves: the same from its reason on, so that this survives the page's cut; and so does the
sentence of a letter. Never here: other errors' messages, which are left as they are.
"""

from __future__ import annotations

import re

_GRAPH = re.compile(
    r"\A\s*Graph execution error:\s*"
    r"(?:Detected at node .* defined at \(most recent call last\):\n(?:<stack traces unavailable>\n|[ \t].*\n|\n)*)*"
)
_FUNCTION_NODE = re.compile(r"\A\s*\{\{function_node [^\n]*?\}\}\s*")


def reason(message: str) -> str:
    """An error's message from its reason on; all of it where nothing is known to come before."""
    shorter = _FUNCTION_NODE.sub("", _GRAPH.sub("", message))
    return shorter if shorter.strip() else message
