"""Who may talk to whom: addresses, the token, message limits.

Enters: a target ("unix:/run/c.sock", "node-0:29677") and a token. Leaves: channels and server ports.
Never here: what is said.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

import grpc
import grpc.aio

TOKEN_KEY = "ddetect-token"
_LIMIT = 64 * 1024 * 1024
OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", _LIMIT),
    ("grpc.max_send_message_length", _LIMIT),
    ("grpc.enable_http_proxy", 0),  # a cluster's web proxy is never the way to a node
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.so_reuseport", 0),  # two coordinators on one port would each see half a job
)


def open_channel(target: str, token: str | None = None) -> grpc.aio.Channel:
    """A channel to a coordinator. The token goes with each call: see `metadata`."""
    return grpc.aio.insecure_channel(target, options=list(OPTIONS))


def metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """What to send with a call so that the coordinator lets us in."""
    return ((TOKEN_KEY, token),) if token else ()


def admits(token: str | None, sent: Sequence[tuple[str, str | bytes]] | None) -> bool:
    """Does a call carry the token this coordinator wants? Without one, all who reach us may speak."""
    if not token:
        return True
    given = next((value for key, value in sent or () if key == TOKEN_KEY), "")
    text = given.decode() if isinstance(given, bytes) else given
    return hmac.compare_digest(text.encode(), token.encode())
