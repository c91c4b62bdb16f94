"""What an agent says of a job's end and of its orders arrives as it was meant."""

from __future__ import annotations

import pytest

from ddetect.messages import FromAgent, JobEnds, RanksEnded
from ddetect.wire.codec import decode_from_agent, encode_from_agent
from ddetect.wire.v1 import agent_pb2


@pytest.mark.parametrize(
    "message",
    [
        JobEnds(signal=15),
        JobEnds(signal=2, age_s=61.5),
        JobEnds(exit_code=0),  # not the same as no exit code
        JobEnds(exit_code=143),
        RanksEnded(),
        RanksEnded((12, 4194304), ("pid 13 (python, D)",), ("pid 14 (wandb-core)", "pid 15 (größe)")),
    ],
)
def test_message_survives_the_wire(message: FromAgent) -> None:
    """Every field comes back, and "no exit code" is not exit code 0."""
    raw = encode_from_agent(message).SerializeToString()

    assert decode_from_agent(agent_pb2.AgentMessage.FromString(raw)) == message
