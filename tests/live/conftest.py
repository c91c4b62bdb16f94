"""Every test in this folder starts real jobs: it is marked `live`, and may take longer than a unit test."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
TIMEOUT_S = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lives here."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.live)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))
