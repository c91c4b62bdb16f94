"""TensorFlow's operations. Enters: what was called. Leaves: small values. Never here: who called it.

A graph takes the numbers of all its collectives when it is called: who has a number is inside the step, and may still
wait there for its data.
"""

from __future__ import annotations

from ddetect.frameworks.framework import Operation
from ddetect.model import CallSpec


def announces(backend: str) -> bool:
    """Every backend's numbers are taken at the beginning of the call."""
    return True


def operation(spec: CallSpec | None) -> Operation:
    """Nobody records which operation a number is: most are all-reduces."""
    return Operation(spec.op if spec is not None else "a collective of the step")
