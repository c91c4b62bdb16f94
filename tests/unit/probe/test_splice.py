from __future__ import annotations

import functools
import json
import signal
import time
import traceback
from typing import Any

import pytest
from ddetect_probe import page, state
from ddetect_probe.splice import splice, switch


def divide(a: int, b: int = 0) -> float:
    """A function with a docstring, a default and a line that may raise."""
    share = a / b
    return share


def guarded(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@guarded
def decorated(value: int) -> int:
    return value + 1


class Box:
    def open(self, key: str) -> str:
        return "open with " + key


def fails(key: int) -> int:
    return key * 2


def interrupted(key: int) -> int:
    return key * 2


def hands_out(key: int) -> list[int]:
    if key < 0:
        return [0]

    def inner() -> int:
        return key

    return [inner()]


def trace_of(call: Any, *args: Any) -> str:
    try:
        call(*args)
    except ZeroDivisionError:
        return traceback.format_exc()
    return ""


def test_spliced_function_is_the_same_object_with_the_same_traceback() -> None:
    """Callers, identity checks and printed tracebacks see no difference; the hooks see every call."""
    seen: list[Any] = []
    plain, before = divide, trace_of(divide, 1)

    assert splice(divide, lambda a, b: seen.append((a, b)), lambda token: seen.append("left"), ("a", "b"))

    assert plain is divide
    assert trace_of(divide, 1) == before
    assert divide(6, 3) == 2
    assert seen == [(1, 0), "left", (6, 3), "left"]


def test_decorated_function_is_spliced_inside_its_decorators() -> None:
    """torch decorates its collectives; the innermost function is the one that gets the calls."""
    seen: list[int] = []

    assert splice(decorated, seen.append, lambda token: None, ("value",))

    assert decorated(4) == 5
    assert seen == [4]


def test_method_is_spliced_where_it_stands() -> None:
    """Indented source compiles too, and keeps its qualified name."""
    seen: list[str] = []

    assert splice(Box.open, seen.append, lambda token: None, ("key",))

    assert Box().open("k") == "open with k"
    assert seen == ["k"]
    assert Box.open.__qualname__ == "Box.open"


def test_hook_that_fails_takes_itself_out() -> None:
    """The job gets its result, the page counts the hook, and the original code is back."""
    original = fails.__code__
    assert "fails" not in state.broken_hooks()

    # what raises is foreign code that the hook calls
    assert splice(fails, lambda key: json.loads("no json"), lambda token: None, ("key",))

    assert fails.__code__ is not original
    assert fails(4) == 8
    assert fails.__code__ is original
    assert "fails" in state.broken_hooks()
    assert state.slots[page.S_HOOKS_OFF] == len(state.broken_hooks())


class Alarm:
    def method(self, number: int, frame: Any) -> None:
        raise TimeoutError("the job's alarm")

    def __call__(self, *_: Any) -> None:
        raise TimeoutError("the job's alarm")


@pytest.mark.parametrize(
    "handler",
    [Alarm(), Alarm().method, functools.partial(Alarm.method, Alarm())],
    ids=["call", "method", "partial"],
)
def test_exception_of_the_jobs_own_signal_handler_is_not_swallowed(handler: Any) -> None:
    """What a signal handler raises while a hook runs belongs to the job; the hook stays."""

    def enter(key: int) -> None:
        signal.raise_signal(signal.SIGUSR2)
        time.sleep(0)

    original = interrupted.__code__
    assert splice(interrupted, enter, lambda token: None, ("key",))
    spliced = interrupted.__code__
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(TimeoutError, match="the job's alarm"):
            interrupted(1)
    finally:
        signal.signal(signal.SIGUSR2, before)

    assert interrupted.__code__ is spliced
    interrupted.__code__ = original


def test_result_sees_each_returned_value_of_the_function_itself() -> None:
    """Every return is seen, returns of inner functions are not."""
    seen: list[Any] = []

    def result(token: Any, value: Any) -> Any:
        seen.append((token, value))
        return value

    assert splice(hands_out, lambda: "token", lambda token: None, (), result=result)

    assert (hands_out(-1), hands_out(5)) == ([0], [5])
    assert seen == [("token", [0]), ("token", [5])]


def test_function_without_that_parameter_or_with_a_closure_is_left_alone() -> None:
    """What cannot be spliced is not changed at all."""
    inside = 3

    def closed() -> int:
        return inside

    code = decorated.__code__

    assert not splice(decorated, print, print, ("no_such_parameter",))
    assert not splice(closed, print, print)
    assert not splice(len, print, print)
    assert (decorated.__code__, closed()) == (code, 3)


def doubled(key: int) -> int:
    return key * 2


def test_hooks_are_taken_out_and_put_back() -> None:
    """Both sides of a measurement run in one process."""
    seen: list[int] = []
    assert splice(doubled, seen.append, lambda token: None, ("key",))
    for on in (True, False, True):
        switch(on)
        doubled(int(on))

    assert seen == [1, 1]
