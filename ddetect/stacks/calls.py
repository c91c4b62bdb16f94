"""Which call to other members a thread is in, and with which arguments, as the dumper printed its local variables.

Enters: the frames of one thread from `py-spy dump --json --locals`, innermost first. Leaves: a `DistCall` or None. Only
the few arguments below are read; every other variable of the job is dropped here and never kept.
Never here: processes; a guess: an argument that cannot be read is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddetect.frameworks.framework import CallNames
from ddetect.model import UNKNOWN, Group

_GROUP_GIVEN = re.compile(r"ProcessGroup|\.\.\.|['\"]group['\"]: (?!None)")


@dataclass(frozen=True, slots=True)
class DistCall:
    """A call that a thread has not returned from. `peer` is the other side, or the root; UNKNOWN when not told."""

    op: str
    peer: int = UNKNOWN
    tag: int = 0
    group: Group | None = None  # the default one, where the call names none; else nobody knows which
    is_p2p: bool = False  # it talks to one other rank


def parse_call(frames: list[dict[str, Any]], names: Sequence[CallNames]) -> DistCall | None:
    """Find the outermost call above the user's code that one of these frameworks knows."""
    found: DistCall | None = None
    for position, frame in enumerate(frames):
        name = str(frame.get("name", "")).rpartition(".")[2]
        known = next((one for one in names if _is_call(name, str(frame.get("filename", "")), one)), None)
        if known is None:
            continue
        values = _locals(frame)
        default = _is_default_group(frames[position + 1 :], values, known)
        side = known.peers.get(name) or known.roots.get(name) or ""
        peer = _number(values.get(side))
        if peer == UNKNOWN and default and side:
            peer = _number(values.get(f"group_{side}"))
        tag = max(0, _number(values.get("tag")))
        group = known.default_group if default else None
        found = DistCall(name, peer, tag, group, name in known.peers)
    return found


def _is_call(name: str, file: str, names: CallNames) -> bool:
    known = name in names.peers or name in names.roots or name in names.rootless
    return known and bool(names.file) and file.endswith(names.file)


def _is_default_group(outer: list[dict[str, Any]], values: dict[str, str], names: CallNames) -> bool:
    """Whether the caller named no group. A wrapper holds what was passed; inside, `group` is filled in."""
    if outer and names.wrapper and str(outer[0].get("filename", "")).endswith(names.wrapper):
        passed = _locals(outer[0])
        if "kwargs" in passed and "args" in passed:
            return not any(_GROUP_GIVEN.search(passed[name]) for name in ("args", "kwargs"))
    return values.get("group") == "None"


def _locals(frame: dict[str, Any]) -> dict[str, str]:
    return {str(item.get("name", "")): str(item.get("repr")) for item in frame.get("locals") or ()}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else UNKNOWN
