"""The C++ threads of a process: a real dump of a job that starves in tf.data (native_all.txt), and made-up lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddetect.stacks.symbols import (
    LONGEST,
    MOST_SYMBOLS,
    MOST_THREADS,
    NativeThread,
    parse_native,
    short,
    telling,
)

REAL = (Path(__file__).parent / "native_all.txt").read_text(encoding="utf-8")
HEAD = "Traceback for thread {} ({}) [] (most recent call last):\n"


def line(symbol: str, library: str = "/l/libjob.so") -> str:
    return f'    (C) File "???", line 0, in {symbol} ({library})\n'


def python(function: str) -> str:
    return f'    (Python) File "/job/train.py", line 3, in {function}\n'


def test_threads_that_wait_for_data_are_left_of_a_real_dump():
    """Of ten threads: the main one, and each different one inside tf.data; idle pools, timers and twins are gone."""
    main, *others = parse_native(REAL)

    assert (main.tid, main.has_python, "TFE_Py_ExecuteCancelable" in main.symbols) == (14889, True, True)
    assert sorted(one.symbols[0].rpartition("data::")[2].partition("::")[0] for one in others) == [
        "PrefetchDatasetOp",
        "PrefetchDatasetOp",
        "experimental",
    ]
    assert all(one.name == "tf_Compute" and not one.has_python for one in others)
    assert any(
        "tensorflow::data::MultiDeviceIterator::MultiDeviceBuffer::BackgroundThread" in one.symbols
        for one in others
    )


def test_thread_inside_a_collective_tells_and_its_idle_brother_does_not():
    """Both are threads of one pool: what stands innermost, primitives aside, decides."""
    pool = line("tsl::UnboundedWorkQueue::PooledThreadFunc()")
    wait = line("absl::lts_20250814::CondVar::WaitCommon(absl::lts_20250814::Mutex*)")
    ring = line("tensorflow::RingReducer::RunAsyncParts()") + line("tensorflow::RingAlg::PCQueue::Dequeue()")
    text = (
        HEAD.format(8, "collective_ops") + pool + wait + HEAD.format(9, "collective_ops") + pool + ring + wait
    )

    (busy,) = parse_native(text)

    assert (busy.tid, busy.symbols) == (
        9,
        (
            "tensorflow::RingAlg::PCQueue::Dequeue",
            "tensorflow::RingReducer::RunAsyncParts",
            "tsl::UnboundedWorkQueue::PooledThreadFunc",
        ),
    )


def test_interpreter_is_told_only_below_the_innermost_line_of_python():
    """A Python lock is found by the interpreter's own symbol; how it came there says nothing."""
    libpython = "/usr/lib/libpython3.11.so.1.0"
    text = (
        HEAD.format(7, "python")
        + line("Py_RunMain", libpython)
        + python("main")
        + line("_PyEval_EvalFrameDefault", libpython)
        + python("take")
        + line("PyThread_acquire_lock_timed", libpython)
        + line("__futex_abstimed_wait_common", "/lib/libc.so.6")
    )

    (main,) = parse_native(text)

    assert (main.symbols[-1], "_PyEval_EvalFrameDefault" in main.symbols) == (
        "PyThread_acquire_lock_timed",
        False,
    )


@pytest.mark.parametrize(
    ("long", "word"),
    [
        ("tensorflow::(anonymous namespace)::Run(int, std::vector<a, b<c> >*)", "tensorflow::Run"),
        ("void absl::lts_20250814::Invoke<false, void (*)(int)>(absl::Any*)", "absl::Invoke"),
        ("a::B<int>::go(std::function<void ()>) const::{lambda(int)#1}::operator()(int) const", "a::B::go"),
        ("__futex_wait (inlined)", "__futex_wait"),
        ("TFE_Execute", "TFE_Execute"),
    ],
)
def test_symbol_is_its_name(long: str, word: str):
    """Template arguments, parameters and versions differ from build to build."""
    assert short(long) == word


def test_many_long_threads_are_cut():
    """Neither the number of threads nor a name nor a stack may make a message of megabytes."""
    text = "".join(
        HEAD.format(n, "tf") + "".join(line(f"job::f{n}_{depth}{'x' * 300}()") for depth in range(100))
        for n in range(200)
    )

    found = parse_native(text)

    assert len(found) == MOST_THREADS
    assert all(len(one.symbols) == MOST_SYMBOLS for one in found)
    assert max(len(symbol) for one in found for symbol in one.symbols) == LONGEST


def test_order_of_threads_is_no_dumpers():
    """The kernel lists threads as they were made: equal processes give equal lists."""
    one, other = NativeThread(3, "b", ("f", "g")), NativeThread(4, "a", ("h",))

    assert telling([one, other]) == telling([other, one]) == (other, one)


def test_text_without_a_thread_is_an_error():
    """A dump that failed is not a process without threads."""
    with pytest.raises(ValueError, match="no thread"):
        parse_native("Error: nothing")
