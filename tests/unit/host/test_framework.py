"""What a process trains with is told by what it has mapped."""

from __future__ import annotations

import pytest

from ddetect.host.framework import (
    TENSORFLOW,
    TORCH,
    Frameworks,
    parse_libraries,
    read_framework,
    serves_a_cluster,
    which,
)
from tests.unit.stacks.targets import running

LINE = b"7f00-7f01 r-xp 00000000 08:01 77   /v/lib/python3.11/site-packages/%s\n"
MAPS_SERVER = """
import ctypes, mmap, sys, threading
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    mapped = mmap.mmap(file.fileno(), 4096)
def serve():
    ctypes.CDLL(None).prctl(15, b"grpcpp_sync_server"[:15])
    print("ready", flush=True)
    threading.Event().wait()
threading.Thread(target=serve, daemon=True).start()
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("library", "frameworks"),
    [
        (b"tensorflow/libtensorflow_framework.so.2", {TENSORFLOW}),
        (b"tensorflow/python/_pywrap_tensorflow_internal.so", {TENSORFLOW}),
        (b"torch/lib/libtorch_cpu.so", {TORCH}),
        (b"tensorflow_probability/x.so", set()),
        (b"numpy/core/_multiarray_umath.so", set()),
    ],
)
def test_libraries_name_their_framework(library, frameworks):
    """One of its own files is enough."""
    assert parse_libraries(LINE % library) == frameworks


def test_of_two_frameworks_the_one_that_runs_speaks():
    """TensorBoard loads TensorFlow beside torch, and tf.data may feed a rank of torchrun."""
    both = {TORCH, TENSORFLOW}

    assert which(both, {"RANK"}, {"tf_Compute"}) == TORCH
    assert which(both, {"TF_CONFIG"}, ()) == TENSORFLOW
    assert which(both, (), {"python", "tf_Compute"}) == TENSORFLOW
    assert which(both, (), {"python"}) == TORCH


def test_process_that_serves_grpc_and_has_tensorflow_is_a_task_of_a_cluster(tmp_path):
    """By a file and a thread of the names that TensorFlow has; nothing of the sort is nobody's task."""
    library = tmp_path / "libtensorflow_framework.so.2"
    with running(MAPS_SERVER, str(library)) as child:
        assert read_framework(child.pid) == TENSORFLOW
        assert serves_a_cluster(child.pid)
    with running(MAPS_SERVER, str(tmp_path / "other.so")) as child:
        assert read_framework(child.pid) == ""
        assert not serves_a_cluster(child.pid)


def test_process_that_is_gone_has_no_framework():
    """Asked between two looks."""
    assert (read_framework(2**22 + 1), serves_a_cluster(2**22 + 1)) == ("", False)


def test_process_is_asked_until_it_has_told_and_never_again():
    """An import takes seconds; the text of all maps is long."""
    answers = iter(["", TENSORFLOW])
    frameworks = Frameworks(lambda pid: next(answers))

    assert [frameworks.of(7, 1), frameworks.most, frameworks.of(7, 1), frameworks.of(7, 1)] == [
        "", "", TENSORFLOW, TENSORFLOW,
    ]  # fmt: skip
    assert frameworks.most == TENSORFLOW
