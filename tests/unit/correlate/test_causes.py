"""Every cause has its page, and the ones that can be reported say what to do."""

from __future__ import annotations

from importlib import resources

import pytest

from ddetect.model import Cause, Culprit
from ddetect.report.advice import advise


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_page_that_is_honest(cause):
    """A page explains how we know and what to do, or says that this cause is not looked for yet."""
    text = resources.files("ddetect").joinpath("causes", f"{cause.value}.md").read_text(encoding="utf-8")

    assert text.startswith(f"# {cause.value}\n")
    later = "does not look for it yet" in text
    assert later != ("What to do:" in text)
    assert later == (not advise(cause, (Culprit(1, pid=7),)))
