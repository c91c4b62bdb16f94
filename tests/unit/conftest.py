"""For tests that look at real processes on a machine that may be busy."""

from __future__ import annotations

import pytest

from ddetect.agent import meter, sample
from ddetect.stacks import dump

LONG_S = 60.0


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dumpers and evidence get as long as they need: what is tested is what they see, not how soon."""
    for name in ("_PYSPY_S", "_NATIVE_S", "_PYSTACK_S"):
        monkeypatch.setattr(dump, name, LONG_S / 3)
    for name in ("_PATIENCE_S", "_NATIVE_PATIENCE_S"):
        monkeypatch.setattr(sample, name, LONG_S)
    monkeypatch.setattr(meter, "SETTLE_S", LONG_S / 3)
    monkeypatch.setitem(dump.read_stacks.__kwdefaults__, "timeout_s", LONG_S)
