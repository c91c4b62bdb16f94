"""Stacks and their meaning, the signature file, and which line is the user's."""

from __future__ import annotations

import json

import pytest

from ddetect.cli.signatures import read_patterns
from ddetect.correlate.classify import classify_thread, posture_of
from ddetect.errors import UsageError
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.frameworks.patterns import parse_patterns
from ddetect.frameworks.torch import TORCH
from ddetect.model import Frame, Role
from tests.unit.correlate.scenes import (
    C10D,
    DOINGS,
    IDLE_WORKER,
    LIB,
    SITE,
    STUCK_WORKER,
    TRAIN,
    thread,
)


@pytest.mark.parametrize(
    ("lines", "kind", "op"),
    [
        ((f"all_reduce {C10D}:1", *TRAIN), Kind.COLLECTIVE, "all_reduce"),
        ((f"all_gather {C10D}:1", f"all_gather_object {C10D}:2", *TRAIN), Kind.COLLECTIVE, "all_gather"),
        ((f"recv {C10D}:1", *TRAIN), Kind.P2P, "recv"),
        (
            (f"_store_based_barrier {C10D}:1", f"init_process_group {C10D}:2", *TRAIN),
            Kind.RENDEZVOUS,
            "init_process_group",
        ),
        ((f"_store_based_barrier {C10D}:1", f"new_group {C10D}:2", *TRAIN), Kind.RENDEZVOUS, "new_group"),
        (
            (f"_verify_param_shape_across_processes {SITE}/torch/distributed/utils.py:1", *TRAIN),
            Kind.COLLECTIVE,
            "all_gather",
        ),
        ((f"_engine_run_backward {SITE}/torch/autograd/graph.py:1", *TRAIN), Kind.BACKWARD, ""),
        (
            ("hook /job/hooks.py:3", f"_engine_run_backward {SITE}/torch/autograd/graph.py:1", *TRAIN),
            Kind.USER,
            "",
        ),
        ((f"save {SITE}/torch/serialization.py:1", *TRAIN), Kind.CHECKPOINT, ""),
        ((f"wait {LIB}/subprocess.py:1264", "convert /job/prep.py:3", *TRAIN), Kind.SUBPROCESS, ""),
        ((f"join {LIB}/threading.py:1", *TRAIN), Kind.LOCK, ""),
        (
            (
                f"wait {LIB}/threading.py:1",
                f"get {LIB}/multiprocessing/pool.py:1",
                "convert /job/prep.py:3",
                *TRAIN,
            ),
            Kind.SUBPROCESS,
            "",
        ),
        (
            (f"acquire {LIB}/logging/__init__.py:901", f"handle {LIB}/logging/__init__.py:1", *TRAIN),
            Kind.LOCK,
            "",
        ),
        (
            (
                "acquire <frozen importlib._bootstrap>:289",
                f"import_module {LIB}/importlib/__init__.py:1",
                *TRAIN,
            ),
            Kind.LOCK,
            "",
        ),
        ((f"synchronize {SITE}/torch/cuda/__init__.py:1", *TRAIN), Kind.DEVICE_SYNC, ""),
        ((f"step {SITE}/torch/optim/sgd.py:1", *TRAIN), Kind.OPTIMIZER, ""),
        (("all_reduce /job/mine.py:4", *TRAIN), Kind.USER, ""),
    ],
)
def test_stack_is_classified(lines, kind, op):
    """The first signature that fits tells what the thread does."""
    doing = classify_thread(thread(*lines), TORCH)

    assert (doing.kind, doing.op) == (kind, op)


def test_loader_worker_idle_and_busy_are_told_apart():
    """An idle worker waits for indices, a busy one is under fetch; the forking parent's frames do not count."""
    idle = classify_thread(IDLE_WORKER.threads[0], TORCH, role=Role.LOADER_WORKER)
    busy = classify_thread(STUCK_WORKER.threads[0], TORCH, role=Role.LOADER_WORKER)

    assert (idle.kind, idle.frame) == (Kind.LOADER_IDLE, None)
    assert (busy.kind, busy.frame) == (Kind.FETCH, Frame("read_shard", "/job/dataset.py", 88))


@pytest.mark.parametrize(
    ("values", "posture"),
    [
        ({"state": "T"}, Posture.FROZEN),
        ({"state": "D"}, Posture.DISK),
        ({"state": "R"}, Posture.BUSY),
        ({"wchan": "hrtimer_nanosleep"}, Posture.ASLEEP),
        ({"wchan": "futex_wait_queue"}, Posture.FUTEX),
        ({"syscall": "read", "target": "/data/x.bin"}, Posture.FILE),
        ({"syscall": "read", "target": "pipe:[12]"}, Posture.PIPE),
        ({"syscall": "read", "target": "socket:[12]"}, Posture.SOCKET),
        ({"syscall": "read", "target": "/dev/pts/0"}, Posture.TERMINAL),
        ({"syscall": "read", "target": "/dev/nvidia0"}, Posture.UNKNOWN),
        ({"syscall": "flock", "target": "/data/x.lock"}, Posture.FILE),
        ({"syscall": "wait4"}, Posture.CHILD),
        ({"syscall": "epoll_wait"}, Posture.POLL),
    ],
)
def test_posture_comes_from_the_kernel(values, posture):
    """State, system call and wait channel tell how a thread sits."""
    assert posture_of(thread(*TRAIN, **values), "S") is posture


def test_signature_file_of_a_user_comes_first(tmp_path):
    """A user's own rule wins over ours."""
    mine = tmp_path / "mine.json"
    rule = {"kind": "file_io", "function": "^pull$", "file": "acme/blob\\.py$", "at": "innermost"}
    mine.write_text(json.dumps({"format": 1, "frameworks": ["acme"], "threads": [rule]}))

    doing = classify_thread(
        thread(f"pull {SITE}/acme/blob.py:3", *TRAIN), TORCH.knowing(parse_patterns(read_patterns(str(mine))))
    )

    assert (doing.kind, doing.frame) == (Kind.FILE_IO, Frame("train", "/job/train.py", 40))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"format": 2}',
        '{"format": 1, "threads": [{"kind": "nap", "function": "x"}]}',
        '{"format": 1, "threads": [{"kind": "lock", "function": "("}]}',
        '{"format": 1, "threads": [{"kind": "lock"}]}',
        '{"format": 1, "threads": [{"kind": "lock", "function": "x", "at": "top"}]}',
        '{"format": 1, "threads": ["lock"]}',
    ],
)
def test_bad_signature_file_is_a_usage_error_that_names_it(text):
    """One clear sentence with the file's name."""
    with pytest.raises(UsageError, match="mine"):
        parse_patterns(text, "mine")


def test_missing_signature_file_is_a_usage_error():
    """The path is in the message."""
    with pytest.raises(UsageError, match="/nowhere"):
        read_patterns("/nowhere/x.json")


def test_native_lock_symbols_tell_a_lock():
    """The builder's lock carries native symbols; they decide."""
    assert classify_thread(DOINGS["lock"].look.threads[0], TORCH).lock is True


@pytest.mark.parametrize(
    ("wchan", "posture"),
    [
        # a sleep that a signal or a dumper has interrupted
        ("do_syscall_64", Posture.UNKNOWN),
        ("hrtimer_nanosleep", Posture.ASLEEP),
        ("do_nanosleep", Posture.ASLEEP),
        ("do_restart_poll", Posture.POLL),
        # an event loop
        ("do_epoll_wait", Posture.POLL),
        ("ep_poll", Posture.POLL),
        ("poll_schedule_timeout.constprop.0", Posture.POLL),
        ("do_select", Posture.POLL),
        ("kernfs_fop_poll", Posture.POLL),
        # a lock, a child, a pipe
        ("futex_wait_queue", Posture.FUTEX),
        ("futex_do_wait", Posture.FUTEX),
        ("do_wait", Posture.CHILD),
        ("pipe_read", Posture.PIPE),
        ("anon_pipe_read", Posture.PIPE),
        ("pipe_wait_readable", Posture.UNKNOWN),
        # the network; what it is, only the call tells
        ("unix_stream_read_generic", Posture.UNKNOWN),
        ("wait_woken", Posture.UNKNOWN),
        ("sk_wait_data", Posture.UNKNOWN),
        ("inet_csk_accept", Posture.UNKNOWN),
        ("__skb_wait_for_more_packets", Posture.UNKNOWN),
        # nothing of these
        ("smbus_wait", Posture.UNKNOWN),
        ("kernfs_drain", Posture.UNKNOWN),
        ("fuse_dev_do_read", Posture.UNKNOWN),  # a file system of the job's own that nobody asks for anything
        ("do_exit", Posture.UNKNOWN),
        ("", Posture.UNKNOWN),
        # files
        ("locks_lock_inode_wait", Posture.FILE),
        ("flock_lock_inode_wait", Posture.FILE),
        ("fcntl_setlk", Posture.FILE),
        ("nlmclnt_block", Posture.FILE),
        ("wait_for_partner", Posture.FILE),
        ("request_wait_answer", Posture.FILE),
        ("fuse_get_req", Posture.FILE),
        ("folio_wait_bit_common", Posture.FILE),
        ("wait_on_page_bit", Posture.FILE),
        ("io_schedule", Posture.FILE),
        ("blk_io_schedule", Posture.FILE),
        ("rpc_wait_bit_killable", Posture.FILE),
        ("nfs_wait_bit_killable", Posture.FILE),
        ("nfs4_proc_lock", Posture.FILE),
        ("pnfs_update_layout", Posture.FILE),
        ("netfs_wait_for_request", Posture.FILE),
        ("cifs_lock_add_if", Posture.FILE),
        ("smb2_compound_op", Posture.FILE),
        ("ceph_mdsc_wait_request", Posture.FILE),
        ("p9_client_rpc", Posture.FILE),
        ("ll_file_io_generic", Posture.FILE),
        ("cl_sync_io_wait", Posture.FILE),
        ("ldlm_completion_ast", Posture.FILE),
        ("ptlrpc_set_wait", Posture.FILE),
        ("cxiWaitEventWait", Posture.FILE),
        ("jbd2_log_wait_commit", Posture.FILE),
        ("xfs_buf_iowait", Posture.FILE),
        ("xlog_wait_on_iclog", Posture.FILE),
        ("ext4_file_write_iter", Posture.FILE),
        ("__wait_on_buffer", Posture.FILE),
    ],
)
def test_function_of_the_kernel_tells_a_file_only_where_it_is_one(wchan, posture):
    """Nobody is sent to look at a file system for an event loop or a sleep that was interrupted."""
    assert posture_of(thread(wchan=wchan), "S") is posture


def test_event_loop_and_interrupted_sleep_wait_for_no_file():
    """`do_epoll_wait` and `do_syscall_64` are no functions of Lustre's, whose names begin with `ll_`."""
    assert posture_of(thread(wchan="do_epoll_wait", syscall="epoll_wait"), "S") is Posture.POLL
    assert posture_of(thread(wchan="do_syscall_64", syscall="restart_syscall"), "S") is Posture.UNKNOWN
    assert posture_of(thread(wchan="ll_file_read", syscall="preadv"), "S") is Posture.FILE
