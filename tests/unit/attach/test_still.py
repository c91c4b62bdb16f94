"""Signs of life between looks: functions, bytes, children. Not lines, not CPU time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ddetect.attach.still import Stillness
from ddetect.frameworks.torch import TORCH
from ddetect.model import UNKNOWN, Frame, Look, Role, Sample, Sighting, Thread


def look(*, function="train", line=40, io=1000, cpu=1.0, children=(), stack=True):
    main = Thread(
        "MainThread", True, False, False, (Frame(function, "/job/train.py", line),) if stack else ()
    )
    pids = [100, *children]
    count = len(pids)
    return Sample(
        rank=[3] * count, role=[Role.RANK, *[Role.CHILD] * (count - 1)], index=[UNKNOWN] * count, pid=pids,
        sighting=[0] * count, fetching=[UNKNOWN] * count, fetch_age_s=[math.inf] * count, cpu_s=[cpu] * count,
        io_bytes=[io] * count, tick_age_s=[math.inf] * count, sightings=(Sighting("S", (main,), "py-spy"),),
    )  # fmt: skip


FIRST = look()


@pytest.mark.parametrize(
    "second",
    [look(function="evaluate"), look(io=1000 + 4096), look(children=[101])],
    ids=["stack", "io", "child"],
)
def test_another_function_bytes_or_children_are_motion(second):
    """Each of them resets the age."""
    still = Stillness(TORCH)
    still.see(Look(FIRST), 10.0)
    still.see(Look(second), 15.0)

    assert still.age_s(3, 17.0) == 2.0
    assert still.why[3]


@pytest.mark.parametrize(
    "second",
    [look(), look(line=41), look(cpu=9.0), look(io=1500), look(stack=False)],
    ids=["nothing", "line", "cpu", "log line", "unread"],
)
def test_lines_cpu_time_and_a_log_line_are_no_motion(second):
    """A busy loop has all of those; a stack that could not be read is no change either."""
    still = Stillness(TORCH)
    still.see(Look(FIRST), 10.0)
    still.see(Look(second), 15.0)

    assert still.age_s(3, 17.0) == math.inf


def test_one_look_tells_nothing():
    """There is nothing to compare it with."""
    still = Stillness(TORCH)
    still.see(Look(replace(FIRST)), 10.0)

    assert still.age_s(3, 11.0) == math.inf


def test_bytes_of_a_rank_that_joins_are_no_motion():
    """It polls the store while it waits for the others."""
    still = Stillness(TORCH)
    for number in range(2):
        sample = look(function="init_process_group", io=1000 + number * 50000)
        file = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
        main = replace(sample.sightings[0].threads[0], stack=(Frame("init_process_group", file, 1700),))
        still.see(Look(replace(sample, sightings=(Sighting("S", (main,), "py-spy"),))), 10.0 + number)

    assert still.age_s(3, 12.0) == math.inf


def test_metrics_daemon_of_a_stuck_rank_is_no_motion():
    """Its child writes some kilobytes at each look; the rank stands in one call for a minute."""
    still = Stillness(TORCH)
    for number in range(13):
        sample = look(children=[101])
        io_bytes = sample.io_bytes + 4096 * number * (sample.role == Role.CHILD)
        still.see(Look(replace(sample, io_bytes=io_bytes)), 100.0 + 5 * number)

    assert still.age_s(3, 160.0) == math.inf


def test_thread_beside_a_rank_that_waits_for_a_lock_is_no_sign_of_life():
    """A heartbeat of the user's moves for ever; the coordinator weighs it, the age of the rank does not."""
    still = Stillness(TORCH)
    for number, function in enumerate(["beat", "report", "beat"]):
        sample = look()
        lock = Thread(
            "MainThread", True, False, False, (Frame("wait", "/usr/lib/python3.11/threading.py", 320),)
        )
        heart = Thread("heart", False, False, False, (Frame(function, "/job/heart.py", 7),))
        still.see(Look(replace(sample, sightings=(Sighting("S", (lock, heart), "py-spy"),))), 10.0 + number)

    assert (still.age_s(3, 14.0), still.why) == (math.inf, {})
