from __future__ import annotations

import os

import pytest

from ddetect.host.ptrace import explain, why_not
from tests.unit.stacks.targets import running

PLAIN = {"Uid": "1000\t1000\t1000\t1000", "CapEff": "0", "CapPrm": "0", "TracerPid": "0"}


def test_own_child_may_be_traced() -> None:
    """Where this test can run at all, a process of ours is open to us."""
    with running("print('ready',flush=True); input()") as child:
        assert why_not(child.pid) == ""


def test_process_that_is_gone_says_so() -> None:
    """A dead pid is not a missing permission."""
    assert why_not(2**22 + 1).endswith("is gone")


@pytest.mark.parametrize(
    ("ours", "theirs", "yama", "words"),
    [
        ({}, {"Uid": "0\t0\t0\t0"}, 0, "another user (uid 0, ours is 1000)"),
        ({}, {}, 1, "ptrace_scope=1"),
        ({}, {}, 2, "ptrace_scope=2"),
        ({}, {}, 3, "reboot"),
        ({}, {"CapPrm": "80000"}, 0, "capabilities that ddetect lacks"),
        ({}, {"TracerPid": "12"}, 0, "traced by pid 12"),
        ({}, {}, 0, "not dumpable"),
        ({"CapEff": "80000"}, {"Uid": "0\t0\t0\t0"}, 1, "in spite of our CAP_SYS_PTRACE"),
    ],
)
def test_each_rule_has_its_own_remedy(
    ours: dict[str, str], theirs: dict[str, str], yama: int, words: str
) -> None:
    """The sentence names the rule that forbids it, so that the user knows what to change."""
    assert words in explain({**PLAIN, **ours}, {**PLAIN, **theirs}, os.getpid(), yama)
