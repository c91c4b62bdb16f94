from __future__ import annotations

import json
from typing import Any

import pytest

from ddetect.stacks.parse import parse_faulthandler, parse_pyspy, parse_pystack


def _frame(name: str, filename: str, line: int, module: str | None = None) -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line, "module": module}


def _thread(tid: int, name: str, *frames: dict[str, Any], **more: Any) -> dict[str, Any]:
    row = {"pid": 7, "os_thread_id": tid, "thread_name": name, "active": False, "owns_gil": False}
    return {**row, "frames": list(frames), **more}


def test_gil_owner_that_sleeps_is_seen() -> None:
    """A thread that owns the GIL while idle is a held GIL: both facts survive."""
    text = json.dumps([_thread(7, "MainThread", _frame("main", "/a.py", 3), owns_gil=True)])

    (seen,) = parse_pyspy(text, 7)

    assert (seen.thread.owns_gil, seen.thread.active, seen.thread.is_main) == (True, False, True)


def test_main_thread_comes_first_whatever_the_dumper_lists() -> None:
    """py-spy lists the newest thread first; we list the main one first, by its number and not its name."""
    text = json.dumps([_thread(9, "a", _frame("f", "/a.py", 1)), _thread(7, "zz", _frame("g", "/a.py", 2))])

    assert [seen.tid for seen in parse_pyspy(text, 7)] == [7, 9]


def test_qualified_names_become_bare() -> None:
    """Python 3.10 and pystack say `run` where py-spy on 3.11 says `Thread.run`: one frame, one name."""
    frames = [_frame("Dataset.read", "/a.py", 1), _frame("main.<locals>.<lambda>", "/a.py", 2)]

    (seen,) = parse_pyspy(json.dumps([_thread(7, "MainThread", *frames)]), 7)

    assert [frame.function for frame in seen.thread.stack] == ["read", "<lambda>"]


def test_probe_thread_is_marked_and_empty_threads_are_left_out() -> None:
    """What ddetect itself does in the rank is no part of the evidence; but which thread it is must be known."""
    tick = _thread(
        8, "", _frame("_tick", "/x/ddetect_probe/beat.py", 75), _frame("_run", "/x/ddetect_probe/beat.py", 54)
    )
    empty = _thread(9, "")

    seen = parse_pyspy(json.dumps([tick, empty, _thread(7, "M", _frame("f", "/a.py", 1))]), 7)

    assert [(one.tid, one.ours) for one in seen] == [(7, False), (8, True)]


def test_forked_loader_worker_does_not_show_its_parents_stack() -> None:
    """fork copies the frames of the parent: everything outside the process bootstrap is not this process's doing."""
    frames = [
        _frame("read_shard", "/user/data.py", 88),
        _frame("_worker_loop", "/p/torch/utils/data/_utils/worker.py", 334),
        _frame("BaseProcess._bootstrap", "/usr/lib/python3.11/multiprocessing/process.py", 314),
        _frame("Popen._launch", "/usr/lib/python3.11/multiprocessing/popen_fork.py", 71),
        _frame("main", "/user/train.py", 12),
    ]

    (seen,) = parse_pyspy(json.dumps([_thread(7, "MainThread", *frames)]), 7)

    assert [frame.function for frame in seen.thread.stack] == ["read_shard", "_worker_loop", "_bootstrap"]


def test_our_wrapper_is_shown_only_when_it_is_where_the_rank_is_stuck() -> None:
    """Frames of the probe between the user's and torch's are noise; one that is innermost is our fault."""
    ours = _frame("hook", "/x/ddetect_probe/torch_.py", 5)
    user = _frame("main", "/a.py", 2)
    inner = _frame("wait", "/p/torch/x.py", 1)

    passing = parse_pyspy(json.dumps([_thread(7, "M", inner, ours, user)]), 7)[0].thread
    stuck = parse_pyspy(json.dumps([_thread(7, "M", ours, user)]), 7)[0].thread

    assert (
        [frame.function for frame in passing.stack],
        [frame.function for frame in stuck.stack],
    ) == (["wait", "main"], ["hook", "main"])


def test_native_frames_go_beside_the_python_stack() -> None:
    """C symbols, innermost first; addresses without a name differ from rank to rank and are dropped."""
    frames = [
        _frame("0x7f00", "/lib/libc.so.6", 0, "/lib/libc.so.6"),
        _frame("c10d::Reducer::finalize_backward", "/t/libtorch_cpu.so", 0, "/t/libtorch_cpu.so"),
        _frame("backward", "/p/torch/x.py", 9),
    ]

    thread = parse_pyspy(json.dumps([_thread(7, "MainThread", *frames)]), 7)[0].thread

    assert (thread.native, len(thread.stack)) == (("c10d::Reducer::finalize_backward",), 1)


def test_driver_without_names_is_told_by_its_library() -> None:
    """Inside libcuda there are only addresses; that the thread stands there tells enough, once."""
    driver = [_frame(address, "", 0, "/usr/lib/libcuda.so.550.54") for address in ("0x7f00", "0x7f10")]
    frames = [
        *driver,
        _frame("cudaStreamSynchronize", "", 0, "/t/libcudart.so.12"),
        _frame("log", "/job/t.py", 9),
    ]

    thread = parse_pyspy(json.dumps([_thread(7, "MainThread", *frames)]), 7)[0].thread

    assert thread.native == ("libcuda.so", "cudaStreamSynchronize")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"pid": 7}]', "null"])
def test_text_that_is_no_dump_is_a_value_error(text: str) -> None:
    """A dumper that prints something else is reported, not believed."""
    with pytest.raises(ValueError, match=r"."):
        parse_pyspy(text, 7)


PYSTACK = """\
Traceback for thread 12 (python) [] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
        self._bootstrap_inner()
    (Python) File "/a.py", line 3, in f
        def f(): lock.acquire()

Traceback for thread 7 (python) [Has the GIL] (most recent call last):
    (Python) File "/a.py", line 5, in <module>
        time.sleep(60)
"""


def test_pystack_text_gives_the_same_shape() -> None:
    """Innermost first, main by its number, GIL owner known."""
    main, other = parse_pystack(PYSTACK, 7)

    assert (main.thread.is_main, main.thread.owns_gil, main.thread.stack[0].function) == (
        True,
        True,
        "<module>",
    )
    assert [frame.function for frame in other.thread.stack] == ["f", "_bootstrap"]


FAULT = """\
Thread 0x00007ff4f54936c0 (most recent call first):
  File "/w/fh.py", line 9 in side
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007ff4f6013b80 (most recent call first):
  File "/w/fh.py", line 13 in user
  File "/w/fh.py", line 24 in <module>
"""


def test_faulthandler_main_thread_is_the_one_threading_did_not_start() -> None:
    """faulthandler names no thread; the main one is known by how it began."""
    main, side = parse_faulthandler(FAULT)

    assert (
        main.thread.is_main,
        main.thread.stack[0].function,
        side.thread.is_main,
        side.thread.stack[0].function,
    ) == (True, "user", False, "side")


def test_faulthandler_cut_off_before_the_main_thread_points_at_none() -> None:
    """Past a hundred threads faulthandler stops early: no thread is called main that is not."""
    only_side = FAULT.split("\n\n")[0] + "\n..."

    assert [seen.thread.is_main for seen in parse_faulthandler(only_side)] == [False]


def test_numbers_of_a_thread_are_those_that_its_dumper_prints() -> None:
    """py-spy knows Python's and the kernel's, pystack the kernel's, faulthandler Python's."""
    spied = json.dumps([_thread(9, "t", _frame("f", "/a.py", 1), thread_id=0x7F12)])
    stacked = 'Traceback for thread 9 (python) [] (most recent call last):\n    (Python) File "/a.py", line 1, in f\n'
    written = 'Thread 0x00007f12 [t] (most recent call first):\n  File "/a.py", line 1 in f\n'

    seen = (*parse_pyspy(spied, 7), *parse_pystack(stacked, 7), *parse_faulthandler(written))

    assert [(one.tid, one.ident) for one in seen] == [(9, 0x7F12), (9, 0), (0, 0x7F12)]
