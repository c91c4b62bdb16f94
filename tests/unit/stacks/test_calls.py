"""What the local variables of a dump say about a torch.distributed call, and nothing else of the job."""

from __future__ import annotations

import pytest

from ddetect.frameworks.torch import TORCH
from ddetect.model import UNKNOWN
from ddetect.stacks.calls import DistCall, parse_call

C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
LOGGER = "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"
DEFAULT = TORCH.calls.default_group
GROUP = "<torch._C._distributed_c10d.ProcessGroup at 0x7f60>"


def frame(name, filename, **values):
    return {
        "name": name, "filename": filename, "line": 1,
        "locals": [{"name": key, "repr": value} for key, value in values.items()],
    }  # fmt: skip


def call(op, *, kwargs="{}", args="(<Tensor at 0x7f60>)", **values):
    return parse_call(
        [
            frame(op, C10D, group=GROUP, **values),
            frame("_exception_logger.<locals>.wrapper", LOGGER, args=args, kwargs=kwargs),
            frame("train", "/job/train.py", secret="'token'"),
        ],
        [TORCH.calls],
    )


def test_all_reduce_without_a_group_is_in_the_default_one():
    """Inside, torch has filled the group in; its wrapper still holds what was passed."""
    assert call("all_reduce") == DistCall("all_reduce", group=DEFAULT)


@pytest.mark.parametrize(
    "passed", [{"kwargs": f'{{"group": {GROUP}}}'}, {"args": f"(<Tensor at 0x7>, {GROUP})"}]
)
def test_group_that_was_passed_is_not_the_default_one(passed):
    """By name or by place."""
    found = call("all_reduce", **passed)

    assert found == DistCall("all_reduce")


def test_group_none_is_the_default_one():
    """None by name is what the default is."""
    assert call("all_reduce", kwargs='{"group": None}') == DistCall("all_reduce", group=DEFAULT)


def test_arguments_cut_off_by_the_dumper_tell_no_group():
    """What may stand behind the dots is not known."""
    assert call("all_reduce", args="(<Tensor at 0x7f60>, ...)") == DistCall("all_reduce")


def test_recv_tells_its_source_and_tag():
    """That makes an edge between two ranks."""
    found = call("recv", src="2", tag="7", kwargs='{"src": 2, "tag": 7}')

    assert found == DistCall("recv", 2, 7, DEFAULT, is_p2p=True)
    assert found.is_p2p


def test_broadcast_tells_its_root():
    """Also where it was given as a rank of the default group."""
    assert call("broadcast", src="1", kwargs='{"src": 1}').peer == 1
    assert call("broadcast", src="None", group_src="3").peer == 3


def test_rank_of_another_group_is_not_taken_for_a_global_one():
    """Rank 0 of a group may be any rank of the job."""
    found = call("send", dst="None", group_dst="0", kwargs=f'{{"group": {GROUP}}}')

    assert found == DistCall("send", UNKNOWN, is_p2p=True)


def test_thread_outside_torch_distributed_has_no_call():
    """A function of the user's that is called all_reduce is none."""
    assert parse_call([frame("all_reduce", "/job/train.py", group="None")], [TORCH.calls]) is None


def test_dump_without_local_variables_tells_the_operation_only():
    """pystack and older dumps: no group, no peer."""
    bare = {"name": "recv", "filename": C10D, "line": 1, "locals": None}

    assert parse_call([bare], [TORCH.calls]) == DistCall("recv", is_p2p=True)
