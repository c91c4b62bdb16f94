"""Words of torch 2.13.0's analyzer: on a gloo dump, and on the same dump with its pg_config repaired by hand."""

from __future__ import annotations

from tests.hangbench.tools.torchfrtrace import culprits_in, is_mismatch, last_line, with_groups

RAISED = """\
Traceback (most recent call last):
  File "builder.py", line 212, in build_collectives
KeyError: ('0', 0)
"""
MISMATCH = """\
Collective sequence number: 36 has errors
internal record id: 35
group info: 0:default_pg
collective: gloo:all_reduce
expected ranks: {0, 1}
collective state: scheduled
error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'all_reduce' does not \
match found collective type: 'barrier'
"""
MISSING = """\
Not all ranks joining collective, sequence number: 3
collective: gloo:all_reduce
missing ranks: {1, 3}
expected ranks: {0, 1, 2, 3}
"""


def test_an_exception_names_nobody() -> None:
    assert culprits_in(RAISED) is None
    assert not is_mismatch(RAISED)
    assert last_line(RAISED) == "KeyError: ('0', 0)"


def test_a_mismatch_has_a_culprit_and_a_cause() -> None:
    assert culprits_in(MISMATCH) == (1,)
    assert is_mismatch(MISMATCH)


def test_missing_ranks_are_culprits_without_a_cause() -> None:
    assert culprits_in(MISSING) == (1, 3)
    assert not is_mismatch(MISSING)


def test_groups_are_listed_under_the_names_that_entries_use() -> None:
    """The members of a group of few are those that used it; whoever used none but the first is in that one only."""
    first, few = ["0", "default_pg"], ["1", "tensor_parallel"]
    config = {"": {"name": "", "desc": "", "ranks": "[0, 1, 2]"}}
    dumps = {
        0: {"pg_config": config, "entries": [{"process_group": first}]},
        1: {"pg_config": config, "entries": [{"process_group": first}, {"process_group": few}]},
        2: {"pg_config": {"": {"ranks": "[]"}}, "entries": [{"process_group": few}]},
    }

    repaired = {rank: dump["pg_config"] for rank, dump in with_groups(dumps).items()}

    assert {name: group["ranks"] for name, group in repaired[2].items()} == {"0": "[0, 1, 2]", "1": "[1, 2]"}
    assert list(repaired[0]) == ["0"]
