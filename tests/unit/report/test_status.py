from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.model import Beats, Phase, Roster
from ddetect.report.status import fold_rows, format_rate, format_status_line, format_status_table
from ddetect.report.words import format_duration
from tests.unit.report import incidents


def columns(count: int, **changes: object) -> tuple[Roster, Beats]:
    """Ranks that all wait in a collective at step 1412, with some columns replaced."""
    roster = Roster(
        rank=np.arange(count),
        lane=np.zeros(count),
        node=np.arange(count) // 8,
        pid=1000 + np.arange(count),
        start_ticks=np.ones(count),
        nodes=tuple(f"node-{n}" for n in range(-(-count // 8))),
    )
    same: dict[str, object] = {
        name: np.zeros(count) for name in ("batch", "calls", "collectives", "cpu_s", "io_bytes")
    }
    same |= {
        name: np.full(count, 12.0) for name in ("step_age_s", "activity_age_s", "phase_age_s", "tick_age_s")
    }
    same |= {
        "step": np.full(count, 1412),
        "phase": np.full(count, int(Phase.COLLECTIVE)),
        "state": np.full(count, ord("S")),
        "has_page": np.ones(count),
    }
    return roster, Beats(**(same | changes))  # type: ignore[arg-type]


def test_moving_job_shows_ranks_step_and_rate():
    """The live line of a job that is well is short."""
    line = format_status_line(state="moving", ranks_seen=4, world_size=4, step=1412, steps_per_s=19.83)

    assert line == "ddetect: 4/4 ranks, step 1412, 19.8 steps/s, moving"


def test_slow_steps_are_shown_as_seconds_per_step():
    """0.05 steps/s tells nobody anything."""
    line = format_status_line(state="moving", ranks_seen=2, world_size=2, step=3, steps_per_s=0.05)

    assert line.endswith("step 3, 20.0 s per step, moving")


@pytest.mark.parametrize(
    ("steps_per_s", "said"),
    [
        (19.83, "19.8 steps/s"),
        (0.987, "1.0 steps/s"),
        (0.94, "1.1 s per step"),
        (0.00487, "205.3 s per step"),
    ],
)
def test_rate_is_said_in_the_unit_that_people_can_use(steps_per_s, said):
    """The live line and `ddetect status` say it alike."""
    assert format_rate(steps_per_s) == said


def test_paused_job_has_no_rate():
    """All ranks are stopped: what they did before is not what they do."""
    line = format_status_line(state="paused", ranks_seen=4, world_size=4, step=1412, steps_per_s=0.987)

    assert line == "ddetect: 4/4 ranks, step 1412, paused: all ranks are stopped (SIGSTOP)"


def test_suspected_job_names_rank_and_cause():
    """The suspicion is on the line, without the word alarm."""
    line = format_status_line(
        state="suspected",
        ranks_seen=4,
        world_size=4,
        step=1412,
        stalled_for_s=12,
        verdict=incidents.loader_hang().verdict,
    )

    assert line == "ddetect: 4/4 ranks, step 1412, no step for 12 s: suspect rank 2 (data_loading)"


def test_confirmed_hang_is_loud_and_blindness_is_said():
    """A confirmed verdict carries its status, and what is not seen is never left out."""
    line = format_status_line(
        state="confirmed",
        ranks_seen=3,
        world_size=4,
        stalled_for_s=200,
        verdict=incidents.loader_hang().verdict,
        blind="1 of 4 ranks unread",
    )

    assert line == (
        "ddetect: 3/4 ranks, no progress for 3m20s: HANG rank 2 (data_loading), 1 of 4 ranks unread"
    )


def test_undecided_suspicion_names_nobody():
    """Without culprits the line says undecided."""
    line = format_status_line(
        state="suspected", ranks_seen=8, world_size=8, stalled_for_s=5, verdict=incidents.undecided().verdict
    )

    assert line.endswith("no progress for 5.0 s: suspect undecided")


def test_table_folds_equal_ranks_and_shows_the_odd_one_with_its_pid():
    """One line for the ranks that are alike, one for the rank that differs."""
    phase = np.full(4, int(Phase.COLLECTIVE))
    phase[2] = Phase.DATA
    lines = format_status_table(fold_rows(*columns(4, phase=phase))).splitlines()

    assert [line.split()[0] for line in lines] == ["RANKS", "0-1,3", "2"]
    assert "collective" in lines[1]
    assert "node-0" in lines[1]
    assert lines[2].split() == [
        "2",
        "1412",
        "12",
        "s",
        "ago",
        "data",
        "12",
        "s",
        "alive",
        "node-0",
        "pid",
        "1002",
    ]


def test_running_and_sleeping_ranks_are_alike_but_a_stopped_one_is_not():
    """R and S change with every look; T does not."""
    state = np.array([ord(c) for c in "RSRT"])
    rows = fold_rows(*columns(4, state=state))

    assert [row.ranks for row in rows] == [(0, 1, 2), (3,)]
    assert "stopped" in format_status_table(rows).splitlines()[2]


def test_many_different_steps_are_folded_into_a_range():
    """100,000 ranks at 1,000 different steps still fit on a screen."""
    count = 100_000
    rows = fold_rows(*columns(count, step=1000 + np.arange(count) % 1000))

    assert len(rows) == 1
    assert rows[0].steps == (1000, 1999)
    assert "0-99999  1000-1999" in format_status_table(rows)
    assert "12500 nodes" in format_status_table(rows)


def test_rank_without_a_page_is_unknown_not_at_step_zero():
    """A blind spot never looks like a rank that has done nothing."""
    roster, beats = columns(1, has_page=np.zeros(1), step=np.zeros(1), step_age_s=np.full(1, np.inf))
    line = format_status_table(fold_rows(roster, beats)).splitlines()[1]

    assert line.split()[:3] == ["0", "?", "-"]
    assert "unknown (no probe)" in line


def test_gone_process_is_called_gone():
    """State 0 means that the process is no more."""
    assert "gone" in format_status_table(fold_rows(*columns(1, state=np.zeros(1))))


def test_empty_job_gives_no_table():
    """Before any rank is seen there is nothing to draw."""
    assert format_status_table(fold_rows(Roster(), Beats())) == ""


def test_roster_and_beats_of_different_length_are_refused():
    """Rows that do not belong together are never shown as if they did."""
    with pytest.raises(ValueError, match="do not belong together"):
        fold_rows(columns(2)[0], columns(3)[1])


def test_culprit_without_cause_keeps_the_line_readable():
    """A verdict with culprits and no cause shows the rank alone."""
    verdict = replace(incidents.loader_hang().verdict, cause=None)
    line = format_status_line(state="suspected", ranks_seen=4, world_size=4, stalled_for_s=3, verdict=verdict)

    assert line.endswith("suspect rank 2")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (4.24, "4.2 s"),
        (9.96, "10 s"),
        (59.7, "1m00s"),
        (190, "3m10s"),
        (7500, "2h05m"),
        (float("inf"), "ever"),
    ],
)
def test_durations_read_as_people_say_them(seconds, text):
    """No 60-second minutes, no raw floats."""
    assert format_duration(seconds) == text


def test_suspicion_without_a_verdict_says_its_summary_or_that_we_look():
    """Between standstill and first judgement the line says that somebody is looking."""
    looking = format_status_line(state="suspected", ranks_seen=4, world_size=4, stalled_for_s=3)
    told = format_status_line(
        state="suspected", ranks_seen=4, world_size=4, stalled_for_s=3, summary="rank 2 sleeps"
    )

    assert looking.endswith("no progress for 3.0 s: looking why")
    assert told.endswith("no progress for 3.0 s: suspected, rank 2 sleeps")
