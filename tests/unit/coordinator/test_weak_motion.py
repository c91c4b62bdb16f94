"""What moves beside a rank (a child's bytes, another thread) stretches patience, and never for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.correlate.limits import PUT_OFF_FAR as UNCOUNTED_MARGIN
from ddetect.model import (
    Cause,
    Culprit,
    Proof,
    Role,
    Sample,
    Sighting,
    Stage,
    Status,
    Thread,
    Verdict,
    Waiting,
)
from tests.unit.coordinator.test_state import Story
from tests.unit.correlate.scenes import DOINGS, LIB, TRAIN, sighting, thread

PATIENCE_S = 60.0
CHILD = Sighting("S", unread="not Python")
AWAITED = Verdict(
    Status.HANG, Cause.USER_CODE, Proof.TIME, 0.9, "rank 1 is elsewhere", (Culprit(1),),
    (Waiting((0,), "barrier"),),
)  # fmt: skip
IN_ASYNCIO = sighting(
    thread(
        f"select {LIB}/selectors.py:468", f"_run_once {LIB}/asyncio/base_events.py:1871",
        f"run {LIB}/asyncio/runners.py:118", *TRAIN, syscall="epoll_wait", wchan="ep_poll",
    )
)  # fmt: skip


class Beside(Story):
    """Rank 1 looks like `look`; a child of it writes `child_bytes` per look, and `others` are its other threads."""

    def __init__(self, look: Sighting, *, child_bytes: int = 0, others: tuple[Thread, ...] = ()) -> None:
        self.look, self.child_bytes, self.others = look, child_bytes, others
        self.taken = 0
        super().__init__(AWAITED)
        self.run(10, stepping=True)

    def sample(self) -> Sample:
        self.taken += 1
        look = self.look
        if self.others:
            other = self.others[self.taken % len(self.others)]
            look = replace(look, threads=(*look.threads[:1], other))
        three = [0, 0, 0]
        return Sample(
            rank=[0, 1, 1], role=[Role.RANK, Role.RANK, Role.CHILD], index=[-1] * 3, pid=[11, 12, 13],
            sighting=[0, 1, 2], fetching=[-1] * 3, fetch_age_s=three, cpu_s=three,
            io_bytes=[1000, 1000, 1000 + self.taken * self.child_bytes], tick_age_s=three,
            sightings=(DOINGS["queue"].look, look, CHILD),
        )  # fmt: skip

    def alarm(self) -> bool:
        return Stage.CONFIRMED in self.stages()


SHELLS_OUT = {"sleeps": DOINGS["asleep"].look, "asyncio": IN_ASYNCIO, "unread": DOINGS["unread"].look}


@pytest.mark.parametrize("look", SHELLS_OUT.values(), ids=SHELLS_OUT)
def test_rank_that_shells_out_while_others_wait_is_no_alarm_after_patience(look):
    """`while p.poll() is None: time.sleep(1)`, create_subprocess, or nobody could read it: the child works."""
    story = Beside(look, child_bytes=10_000_000).run(4 * PATIENCE_S)

    assert story.stages() == [Stage.SUSPECTED]
    story.child_bytes = 0
    assert not story.run(PATIENCE_S - 15).alarm()
    assert story.run(30).alarm()


@pytest.mark.parametrize("look", SHELLS_OUT.values(), ids=SHELLS_OUT)
def test_child_that_writes_for_ever_is_an_alarm_at_ten_times_patience(look):
    """It may be a metrics daemon: that writes on while its rank is stuck."""
    story = Beside(look, child_bytes=10_000_000).run(UNCOUNTED_MARGIN * PATIENCE_S - 15)
    assert not story.alarm()

    assert story.run(30).alarm()


@pytest.mark.parametrize("name", ["queue", "lock", "flock", "stopped"])
def test_child_of_a_rank_that_waits_for_something_else_is_no_excuse(name):
    """A lock, a file, SIGSTOP: no child will end that."""
    assert Beside(DOINGS[name].look, child_bytes=10_000_000).run(PATIENCE_S + 15).alarm()


def loop(*lines: str) -> Thread:
    return thread(*lines, f"run {LIB}/threading.py:982", main=False, name="loop")


def test_heartbeat_thread_of_the_user_does_not_hold_a_lock_hang_back_for_ever():
    """Nobody knows whether the main thread waits for that one: ten times patience, and not an hour."""
    heart = loop("beat /job/heart.py:7"), loop("report /job/heart.py:9", "beat /job/heart.py:8")
    story = Beside(DOINGS["queue"].look, others=heart).run(UNCOUNTED_MARGIN * PATIENCE_S - 15)
    assert not story.alarm()

    assert story.run(30).alarm()
