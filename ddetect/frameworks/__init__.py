"""What only a framework knows, as values: its operations and who waits in them, its stacks, its deaths, its words.

Enters: nothing. Leaves: `FRAMEWORKS`, by the name that a snapshot carries. Whoever has another framework passes a
registry of their own; nothing is looked for or loaded. Never here: a job's evidence, I/O but for our own pattern files.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ddetect.frameworks.framework import Framework
from ddetect.frameworks.general import GENERAL
from ddetect.frameworks.patterns import parse_patterns
from ddetect.frameworks.tensorflow import TENSORFLOW
from ddetect.frameworks.torch import TORCH
from ddetect.model import Snapshot

Registry = Mapping[str, Framework]

FRAMEWORKS: Registry = MappingProxyType({one.name: one for one in (TORCH, TENSORFLOW)})


def named_packages(registry: Registry = FRAMEWORKS) -> frozenset[str]:
    """Packages of all frameworks: whatever the job is of, their lines say nothing."""
    return GENERAL.patterns.packages.union(*(one.patterns.packages for one in registry.values()))


def framework_of(snapshot: Snapshot, registry: Registry = FRAMEWORKS) -> Framework:
    """The framework of a job, with the stack patterns that its user added; one that nobody knows is a plain program."""
    framework = registry.get(snapshot.framework, GENERAL)
    added = snapshot.settings.signatures
    return framework.knowing(parse_patterns(added, "signatures")) if added else framework
