"""What the coordinator orders arrives as it was meant, also from one that says less."""

from __future__ import annotations

import pytest

from ddetect.messages import EndRanks, TakeEvidence, ToAgent
from ddetect.wire.codec import decode_to_agent, encode_to_agent
from ddetect.wire.v1 import agent_pb2


@pytest.mark.parametrize(
    "order",
    [
        TakeEvidence(7, (1, 2)),
        TakeEvidence(8, light=True),
        EndRanks(3.0),
        EndRanks(10.0, "ddetect: rank 1 is in user code; 0 wartet für immer", (0, 2)),
    ],
)
def test_order_survives_the_wire(order: ToAgent) -> None:
    """Every field comes back."""
    raw = encode_to_agent(order).SerializeToString()

    assert decode_to_agent(agent_pb2.CoordinatorMessage.FromString(raw)) == order
