"""Letters: end the collectives that this process waits in, with a sentence that its user will read.

Enters: a letter from the mailbox, "abort " and a sentence. Leaves: an UnavailableError that has the sentence in it,
raised by TensorFlow in the thread that waits. Never here: who writes letters, and why.
"""

from __future__ import annotations

import sys
from typing import Any

ABORT = "abort "
UNAVAILABLE = 14  # as in tf.errors: what TensorFlow itself says when a peer is gone


def receive(letter: str) -> None:
    """Do what a letter asks for, if it is for us."""
    if not letter.startswith(ABORT):
        return
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    context = module.context_safe() if module is not None else None
    # Without a handle nothing was ever run; to ask for one would wait for the other workers.
    if context is not None and context._context_handle is not None:
        context.abort_collective_ops(UNAVAILABLE, letter[len(ABORT) :])
