"""The page's shape is that of torch 2.13.0's `raw_resp.html`."""

from __future__ import annotations

from tests.hangbench.tools.torchdebug import ranks_shown

PAGE = """<h1>Stacks</h1>
<h2>Rank 0: http://host:1/handler/dump_traceback?</h2>
  <pre>Thread 0x01 (most recent call first):
  File "train.py", line 9 in ask</pre>
<h2>Rank 1: http://host:2/handler/dump_traceback?</h2>
  <p>Failed to fetch: status=408</p>
  <pre>Timeout</pre>
"""


def test_a_rank_that_did_not_answer_is_not_shown() -> None:
    assert ranks_shown(PAGE) == (0,)


def test_another_page_shows_none() -> None:
    assert ranks_shown("<h1>FlightRecorder</h1>") == ()
