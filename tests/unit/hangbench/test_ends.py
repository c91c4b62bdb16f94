"""Which end a stuck job meets: all of them in one seed, others in the next one, and none that it cannot meet."""

from __future__ import annotations

from collections import Counter

from ddetect.model import Status
from ddetect.scenarios.catalogue import SCENARIOS, TENSORFLOW, TORCH
from tests.hangbench.ends import BY_NAME, ending, ends_of
from tests.live.ends import CTRL_C, ITSELF, SIGINT, SIGKILL, SIGTERM, STOP, TIMEOUT

HANGS = [one for one in TORCH.values() if one.status is Status.HANG]


def test_every_seed_meets_every_end_and_none_much_more_often_than_another():
    """Of torch's suite; Ctrl-C at a terminal and SIGINT to the launcher share one turn."""
    for seed in "123":
        met = Counter(ending(scenario, seed) for scenario in HANGS)
        turns = [met[STOP], met[SIGTERM], met[SIGINT] + met[CTRL_C], met[SIGKILL], met[TIMEOUT]]

        assert min(met[SIGINT], met[CTRL_C]) > 0
        assert max(turns) < 1.5 * min(turns), turns


def test_three_seeds_in_a_row_end_a_job_in_three_ways():
    """The same one thrice would be one end."""
    for scenario in HANGS:
        assert len({ending(scenario, seed) for seed in "123"}) == 3, scenario.name


def test_a_job_meets_no_end_that_it_cannot_meet():
    """Healthy ones and dead ones end by themselves; TensorFlow has no timeout of torch's; nor has who goes on."""
    for scenario in SCENARIOS.values():
        ends = set(ends_of(scenario))
        if scenario.status is Status.HEALTHY:
            assert (ends, ending(scenario, "1")) == (set(), None)
        elif scenario.status is Status.STOPPED:
            assert ends == {ITSELF}
        else:
            assert ends >= {SIGTERM, SIGKILL}
            assert (SIGINT in ends) is (scenario.framework == "torch")  # a step of TensorFlow swallows it
            assert (STOP in ends) is (scenario.status is Status.HANG)  # what is not told is not ended by us
    assert TIMEOUT not in {end for one in TENSORFLOW.values() for end in ends_of(one)}
    assert TIMEOUT not in ends_of(TORCH["stopped_and_resumed"])
    assert TIMEOUT not in ends_of(TORCH["never_started"])


def test_an_end_is_found_by_its_name():
    """A run in a process of its own is told the name."""
    assert {end.name for one in SCENARIOS.values() for n in (0, 1) for end in ends_of(one, n)} <= set(BY_NAME)
