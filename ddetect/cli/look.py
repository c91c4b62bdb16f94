"""How output should look where it goes: colour on a terminal, unless someone said no.

Enters: a stream and the environment. Leaves: a decision. Never here: the output itself.
"""

from __future__ import annotations

import os
from typing import TextIO


def wants_color(stream: TextIO) -> bool:
    """Colour on a terminal only; NO_COLOR and dumb terminals are heard."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()
