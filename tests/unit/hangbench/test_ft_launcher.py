"""Lines that ft_launcher 0.4.1 printed."""

from __future__ import annotations

from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.hangbench.tools.ft_launcher import command, flagged, has_optimizer, is_alarm, read, run

START = """\
[2026-11-16 05:32:08,668] [WARNING] [ft_launcher10@host] GPU Health checks disabled: NVML Shared Library Not Found
"""
HANG = (
    START
    + """\
[2026-11-16 05:32:30,750] [WARNING] [RankMonServer11@host:0] Did not get subsequent heartbeat. Waited 10.00 seconds.
[2026-11-16 05:32:30,750] [WARNING] [RankMonServer11@host:0] FT timeout elapsed.
[2026-11-16 05:32:30,881] [WARNING] [RankMonServer12@host:2] Did not get subsequent heartbeat. Waited 10.00 seconds.
"""
)
FAILED = """\
[2026-11-16 05:32:30,913] [ERROR] [ft_launcher10@host] failed (exitcode: -9) local_rank: 0 (pid: 13) of binary: python3
"""


def test_a_start_is_no_alarm() -> None:
    assert not is_alarm(START)


def test_every_monitor_that_fired_is_seen_and_the_launchers_error_names_one() -> None:
    assert is_alarm(HANG)
    assert flagged(HANG + FAILED) == (0, 2)
    answer = read(HANG + FAILED)
    assert (answer.culprits, answer.status, answer.cause) == ((0,), "hang", None)


def test_before_the_launchers_error_nobody_is_named() -> None:
    assert read(HANG).culprits is None


def test_a_rank_that_died_by_itself_is_no_hang() -> None:
    answer = read(START + FAILED)
    assert (answer.culprits, answer.status, answer.cause) == ((0,), "stopped", "killed_by_signal")


def test_the_launcher_takes_torchruns_place() -> None:
    words = command(SCENARIOS["user_sleep"], Params())
    assert words[0].endswith("ft_launcher")
    assert "torch.distributed.run" not in words
    assert [word.rsplit("/", 1)[-1] for word in words if word.endswith(".py")] == [
        "heartbeats.py",
        "user_sleep.py",
    ]


def test_a_job_that_needs_a_restart_is_not_run(tmp_path) -> None:
    """Its restarts are turned off, and the option is not given twice."""
    assert run(SCENARIOS["elastic_restart"], Params(), tmp_path).cannot
    assert command(SCENARIOS["user_sleep"], Params()).count("--max-restarts") == 1


def test_it_is_known_which_programs_step_an_optimizer() -> None:
    assert has_optimizer(SCENARIOS["user_sleep"])
    assert has_optimizer(SCENARIOS["healthy_spikes"])
    assert has_optimizer(SCENARIOS["joined_sleep"])  # it hands the function to a thread
    assert not has_optimizer(SCENARIOS["mismatch_op"])
