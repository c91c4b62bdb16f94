"""Which torch.distributed call a thread is in, and with which arguments, as the dumper printed its local variables.

Enters: the frames of one thread from `py-spy dump --json --locals`, innermost first. Leaves: a `DistCall` or None. Only
the few arguments below are read; every other variable of the job is dropped here and never kept.
Never here: processes; a guess: an argument that cannot be read is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ddetect.model import UNKNOWN

_C10D = "torch/distributed/distributed_c10d.py"
_WRAPPER = "torch/distributed/c10d_logger.py"
_PEER = {"send": "dst", "recv": "src"}
_ROOT = {"broadcast": "src", "reduce": "dst", "gather": "dst", "scatter": "src"}
_ROOTLESS = frozenset(
    {
        "all_reduce", "barrier", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
        "all_to_all", "all_to_all_single", "all_gather_object",
    }
)  # fmt: skip
_GROUP_GIVEN = re.compile(r"ProcessGroup|\.\.\.|['\"]group['\"]: (?!None)")


@dataclass(frozen=True, slots=True)
class DistCall:
    """A call that a thread has not returned from. `peer` is the other side, or the root; UNKNOWN when not told."""

    op: str
    peer: int = UNKNOWN
    tag: int = 0
    default_group: bool = False  # the call names no group: it is the job's default one

    @property
    def is_p2p(self) -> bool:
        """Whether it talks to one other rank."""
        return self.op in _PEER


def parse_call(frames: list[dict[str, Any]]) -> DistCall | None:
    """Find the outermost torch.distributed call above the user's code."""
    found: DistCall | None = None
    for position, frame in enumerate(frames):
        name = str(frame.get("name", "")).rpartition(".")[2]
        if not str(frame.get("filename", "")).endswith(_C10D):
            continue
        if name not in _PEER and name not in _ROOT and name not in _ROOTLESS:
            continue
        values = _locals(frame)
        default = _is_default_group(frames[position + 1 :], values)
        side = _PEER.get(name) or _ROOT.get(name) or ""
        peer = _number(values.get(side))
        if peer == UNKNOWN and default and side:
            peer = _number(values.get(f"group_{side}"))
        found = DistCall(name, peer, max(0, _number(values.get("tag"))), default)
    return found


def _is_default_group(outer: list[dict[str, Any]], values: dict[str, str]) -> bool:
    """Whether the caller named no group. torch's wrapper holds what was passed; inside, `group` is filled in."""
    if outer and str(outer[0].get("filename", "")).endswith(_WRAPPER):
        passed = _locals(outer[0])
        if "kwargs" in passed and "args" in passed:
            return not any(_GROUP_GIVEN.search(passed[name]) for name in ("args", "kwargs"))
    return values.get("group") == "None"


def _locals(frame: dict[str, Any]) -> dict[str, str]:
    return {str(item.get("name", "")): str(item.get("repr")) for item in frame.get("locals") or ()}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else UNKNOWN
