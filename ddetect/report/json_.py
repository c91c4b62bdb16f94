"""An incident as `verdict.json`, schema 1: the contract other programs read.

Enters: an Incident. Leaves: a dict of plain JSON values. Fields may be added; none is renamed or removed.
Never here: I/O, wording, judging.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ddetect.model import Culprit, Incident, Judgement, Where
from ddetect.rankset import format_members, format_ranks

SCHEMA = 1


def verdict_json(incident: Incident) -> dict[str, Any]:
    """Say everything about an incident in the words of the contract."""
    verdict = incident.verdict
    said: dict[str, Any] = {
        "schema": SCHEMA,
        "status": verdict.status.value,
        "cause": verdict.cause.value if verdict.cause else None,
        "stage": incident.stage.value,
        "proof": verdict.proof.value,
        "confidence": round(verdict.confidence, 4),
        "summary": verdict.summary,
        "culprits": [_culprit(culprit) for culprit in verdict.culprits],
        "waiting": [
            {
                "ranks": format_ranks(group.ranks),
                "on": group.on,
                "backend": group.backend,
                "group": group.group,
                "seq": group.seq,
                "lanes": format_ranks(group.lanes) or None,
            }
            for group in verdict.waiting
        ],
        "unread": [{"ranks": format_ranks(item.ranks), "reason": item.reason} for item in verdict.unread],
        "evidence": list(verdict.evidence),
        "advice": list(verdict.advice),
        "history": [_judgement(earlier) for earlier in incident.history],
        "closed": None,
        "job": incident.job,
        "attempt": incident.attempt,
        "world_size": incident.world_size,
        "members": incident.members if incident.members > 0 else incident.world_size,
        "stalled_for_s": _seconds(incident.stalled_for_s),
        "last_progress_unix_ns": incident.last_progress_unix_ns,
        "judged_at_unix_ns": incident.judged_at_unix_ns,
        "said_at_unix_ns": incident.said_at_unix_ns or incident.judged_at_unix_ns,
        "incident": incident.number,
    }
    if verdict.left_open is not None:
        said["open"] = {
            "members": format_members(verdict.left_open.members),
            "causes": [cause.value for cause in verdict.left_open.causes],
        }
    if incident.confirmed_at_unix_ns is not None:
        said["confirmed_at_unix_ns"] = incident.confirmed_at_unix_ns
    if incident.closed is not None:
        said["closed"] = {
            "reason": incident.closed.reason,
            "lasted_s": _seconds(incident.closed.lasted_s),
            "at_unix_ns": incident.closed.at_unix_ns,
            "recovered": incident.closed.recovered,
        }
    return said


def format_verdict_json(incident: Incident) -> str:
    """The text of `verdict.json`, and of every `--json`: plain ASCII, so that no terminal and no disk refuses it."""
    return json.dumps(verdict_json(incident), indent=1, allow_nan=False) + "\n"


def list_verdicts(texts: Sequence[str]) -> str:
    """Several verdicts as one list."""
    return json.dumps([json.loads(text) for text in texts], indent=1) + "\n"


def _seconds(seconds: float) -> float | None:
    return round(seconds, 3) if math.isfinite(seconds) else None


def _culprit(culprit: Culprit) -> dict[str, Any]:
    process, where = culprit.process, culprit.where
    return {
        "rank": culprit.rank,
        "lane": culprit.lane,
        "host": culprit.host,
        "pid": culprit.pid,
        "process": {"role": process.role, "index": process.index, "pid": process.pid} if process else None,
        "where": _where(where) if where else None,
        "doing": culprit.doing,
    }


def _where(where: Where) -> dict[str, Any]:
    said: dict[str, Any] = {"function": where.function, "file": where.file, "line": where.line}
    return said | {"library": True} if where.library else said


def _judgement(earlier: Judgement) -> dict[str, Any]:
    return {
        "stage": earlier.stage.value,
        "status": earlier.status.value,
        "cause": earlier.cause.value if earlier.cause else None,
        "culprits": format_ranks(earlier.culprits),
        "summary": earlier.summary,
        "at_unix_ns": earlier.at_unix_ns,
    }
