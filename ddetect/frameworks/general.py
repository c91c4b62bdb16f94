"""A program of no framework that we know: what plain Python stacks mean, and nothing more.

Enters: general.json, once. Leaves: `GENERAL_PATTERNS`, which every framework adds its own to, and `GENERAL`.
"""

from __future__ import annotations

from importlib import resources

from ddetect.frameworks.framework import Framework
from ddetect.frameworks.patterns import parse_patterns

GENERAL_PATTERNS = parse_patterns(
    resources.files("ddetect.frameworks").joinpath("general.json").read_text(encoding="utf-8"), "general.json"
)
GENERAL = Framework("", GENERAL_PATTERNS)
