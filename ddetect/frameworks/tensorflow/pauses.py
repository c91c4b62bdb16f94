"""Where a healthy TensorFlow job stands still by itself, and for how long. A frame enters, seconds leave."""

from __future__ import annotations

import re

from ddetect.model import Frame

FREES_ITERATOR_S = 60.0
"""Who frees an iterator waits for its autotuning thread, whose naps grow with its age, up to a minute."""

_BETWEEN_EPOCHS = re.compile(
    r"(keras/src/backend/tensorflow/trainer|(tf_keras|keras)/src/engine/training)\.py:(fit|evaluate|predict)$"
)
"""Keras frees the iterator of the last epoch in these functions themselves; all that they call has frames."""


def stands_s(innermost: Frame) -> float:
    """How long a healthy thread may stand in this frame, with no other below it."""
    return FREES_ITERATOR_S if _BETWEEN_EPOCHS.search(f"{innermost.file}:{innermost.function}") else 0.0
