"""TensorFlow's modules, as far as the job has loaded them.

Enters: a name. Leaves: the module. Never here: an import; what a job does not use is not hooked.
"""

from __future__ import annotations

import sys
from typing import Any


def loaded(name: str) -> Any:
    """A module that is there already; `name` is that below `tensorflow.python`."""
    return sys.modules["tensorflow.python." + name]
