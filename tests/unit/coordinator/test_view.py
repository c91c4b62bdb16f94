"""What people are shown of a running job: the word for its state, and the line."""

from __future__ import annotations

from ddetect.coordinator.view import job_state, status_line, status_response
from ddetect.model import Phase
from tests.unit.coordinator.test_state import STOPPED, Story


def shown(story: Story) -> tuple[str, str]:
    """The state, as the line's job has it and as `ddetect status` is told."""
    return job_state(story.job, story.now), status_response(story.job, story.now, "").state


def test_job_whose_ranks_are_all_stopped_is_paused():
    """It does not move, and nobody suspects it; when they go on it moves."""
    story = Story().run(10, stepping=True)
    assert shown(story) == ("moving", "moving")

    story.state = ord("T")
    story.run(120)

    assert shown(story) == ("paused", "paused")
    line = f"ddetect: 2/2 ranks, step {story.step}, paused: all ranks are stopped (SIGSTOP)"
    assert status_line(story.job, story.now) == line
    story.state = ord("S")
    story.run(3, stepping=True)
    assert shown(story) == ("moving", "moving")


def test_job_that_is_stopped_before_its_first_step_is_paused():
    """Nothing is learned of it yet."""
    story = Story()
    story.state = ord("T")
    story.run(5)

    assert shown(story) == ("paused", "paused")


def test_pause_that_the_user_told_is_no_stop():
    """`ddetect_probe.pause("eval")`: the ranks run."""
    story = Story().run(10, stepping=True)
    story.phase = Phase.PAUSED
    story.run(60)

    assert shown(story) == ("moving", "moving")


def test_suspicion_rests_while_all_ranks_are_stopped():
    """Somebody stopped them: whoever asks hears that first."""
    story = Story().run(10, stepping=True).run(3)
    assert shown(story) == ("suspected", "suspected")

    story.state = ord("T")
    story.run(1)

    assert shown(story) == ("paused", "paused")


def test_alarm_stays_while_all_ranks_are_stopped():
    """What was confirmed is not taken back by a signal."""
    story = Story(STOPPED).run(10, stepping=True).run(6)
    story.state = ord("T")
    story.run(1)

    assert shown(story) == ("confirmed", "confirmed")


def test_silent_job_is_blind_however_it_was_seen_last():
    """Nobody knows whether they are stopped still."""
    story = Story().run(10, stepping=True)
    story.state = ord("T")
    story.run(2).run(10, beats=False)

    assert shown(story)[0] == "blind"
