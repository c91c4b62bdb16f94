from __future__ import annotations

import pytest

from tests.hangbench.tools.pyspy import main_thread, odd_ones_out

DUMP = """\
Process 4711: python3 -u train.py --rank 2
Python v3.11.7 (/usr/local/bin/python3.11)

Thread 4713 (idle): "pt_main_thread"
    wait (threading.py:331)
    run (tensorboard.py:244)
Thread 4711 (active): "MainThread"
    ask_feature_store (train.py:9)
    train (training.py:86)
    <module> (train.py:12)
"""


def test_the_main_thread_is_found_wherever_it_stands() -> None:
    assert (
        main_thread(DUMP) == "ask_feature_store (train.py:9)\ntrain (training.py:86)\n<module> (train.py:12)"
    )


def test_a_dump_without_that_name_gives_its_first_thread() -> None:
    assert main_thread(
        "Thread 0x7F01 (idle)\n    poll (a.py:1)\nThread 0x7F02 (idle)\n    poll (b.py:1)\n"
    ) == ("poll (a.py:1)")


def test_nothing_gives_nothing() -> None:
    assert main_thread("") == ""


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({0: "wait", 1: "wait", 2: "sleep"}, (2,)),
        ({0: "wait", 1: "read", 2: "sleep", 3: "wait"}, (1, 2)),
        ({0: "wait", 1: "sleep"}, None),
        ({0: "wait", 1: "sleep", 2: "wait", 3: "sleep"}, None),
        ({0: "wait", 1: "wait"}, ()),
        ({}, None),
    ],
)
def test_the_minority_is_named_nobody_if_all_agree_and_a_tie_is_no_answer(
    texts: dict[int, str], named: tuple[int, ...] | None
) -> None:
    assert odd_ones_out(texts) == named
