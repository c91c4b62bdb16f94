from __future__ import annotations

import socket

import pytest

from ddetect.client import read_status
from ddetect.errors import NetworkError
from tests.unit.cli.coordinator import response, serving


def test_running_coordinator_tells_every_rank(tmp_path):
    """The answer arrives as columns of the model, row for row."""
    with serving(
        tmp_path / "c.sock", response(incident="out/incident-001", summary="rank 2 sleeps")
    ) as target:
        view = read_status(target)

    assert (view.job, view.world_size, view.state) == ("night-run", 4, "moving")
    assert view.roster.rank.tolist() == [0, 1, 2, 3]
    assert view.roster.nodes == ("node-0",)
    assert view.beats.step.tolist() == [1412] * 4
    assert (view.incident, view.summary) == ("out/incident-001", "rank 2 sleeps")
    assert [(node.name, node.connected) for node in view.nodes] == [("node-0", True)]


def test_nobody_at_the_address_is_a_network_error_with_a_remedy(tmp_path):
    """A job that has ended is answered with a sentence, not with a gRPC trace."""
    with pytest.raises(NetworkError, match="no coordinator answers at unix:") as raised:
        read_status(f"unix:{tmp_path}/none.sock")

    assert "still running" in raised.value.hint


@pytest.mark.parametrize(("token", "said"), [(None, "a token, and none is set"), ("wrong", "another token")])
def test_missing_or_wrong_token_says_what_to_set(tmp_path, token, said):
    """Being refused is told apart from being unreachable."""
    with (
        serving(tmp_path / "c.sock", response(), token="right") as target,
        pytest.raises(NetworkError, match=said) as raised,
    ):
        read_status(target, token)

    assert "DDETECT_TOKEN" in raised.value.hint


def test_right_token_is_let_in(tmp_path):
    """The token travels with the call."""
    with serving(tmp_path / "c.sock", response(), token="right") as target:
        assert read_status(target, "right").job == "night-run"


def test_silent_listener_ends_in_a_timeout(tmp_path):
    """Something that accepts and says nothing costs the user no more than the timeout."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "c.sock"))
        silent.listen(1)
        with pytest.raises(NetworkError):
            read_status(f"unix:{tmp_path}/c.sock", timeout_s=0.5)


def test_rows_that_do_not_belong_together_are_refused(tmp_path):
    """A coordinator of another version is not shown as if it made sense."""
    torn = response()
    torn.beats.columns.append("step")
    with serving(tmp_path / "c.sock", torn) as target, pytest.raises(NetworkError, match="makes no sense"):
        read_status(target)
