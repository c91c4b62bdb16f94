"""What follows an alarm: a web hook, a command, the end of the ranks. Late and gently.

Enters: a confirmed incident and its folder ("" while it is not on disk). Leaves: a POST, a started command, or a
question to agents. A failure here is logged and never stops the watching. Never here: deciding whether.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import urllib.request
from dataclasses import dataclass

from ddetect.errors import UsageError
from ddetect.messages import EndRanks
from ddetect.model import Incident
from ddetect.report.json_ import verdict_json
from ddetect.report.words import format_duration

STOP_GRACE_S = 10.0
NOT_WRITTEN = "its evidence is not written yet"
_TIMEOUT_S = 10.0
log = logging.getLogger("ddetect.act")


@dataclass(frozen=True, slots=True)
class OnHang:
    """What the user wants done: report (nothing more), stop, or a command."""

    kind: str = "report"
    command: str = ""


def parse_on_hang(text: str) -> OnHang:
    """Read `report`, `stop` or `exec:CMD`. Raises UsageError."""
    if text in ("report", "stop"):
        return OnHang(text)
    kind, _, command = text.partition(":")
    if kind == "exec" and command.strip():
        return OnHang("exec", command)
    raise UsageError(
        f"--on-hang takes report, stop or exec:CMD, not {text!r}",
        hint="For example: --on-hang 'exec:notify-me'",
    )


def end_ranks(incident: Incident) -> EndRanks:
    """The order to end all ranks; those that wait are told why, so that the user finds it in their traceback."""
    waiting = {rank for one in incident.verdict.waiting for rank in one.ranks}
    return EndRanks(STOP_GRACE_S, sentence(incident), tuple(sorted(waiting)))


def sentence(incident: Incident) -> str:
    """The verdict in one line, marked as ours: an exception that carries it is an end that we asked for."""
    return " ".join(f"ddetect: {incident.verdict.summary}".split())


async def notify(url: str, incident: Incident, folder: str, *, alarm: bool = True) -> None:
    """POST the incident as JSON. Slack-compatible hooks show `text`; others read `alarm` and `verdict`."""
    text = message(incident, folder) if alarm else note(incident, folder)
    payload = {"text": text, "alarm": alarm, "verdict": verdict_json(incident)}
    request = urllib.request.Request(
        url, json.dumps(payload).encode(), {"Content-Type": "application/json", "User-Agent": "ddetect"}
    )
    try:
        await asyncio.to_thread(_post, request)
    except OSError as error:
        log.warning("could not notify %s: %s", url, error)


def message(incident: Incident, folder: str) -> str:
    """The alarm in two lines."""
    evidence = f"evidence in {folder}" if folder else NOT_WRITTEN
    return f"ddetect: {incident.verdict.summary}\njob {incident.job}, {evidence}"


def note(incident: Incident, folder: str) -> str:
    """A suspicion that lasts, for those who want to know before it is an alarm."""
    lasts = format_duration(incident.stalled_for_s)
    return f"not an alarm, no progress for {lasts}: {message(incident, folder)}"


def _post(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        answer.read(1024)


async def run_command(command: str, incident: Incident, folder: str) -> None:
    """Run the user's command with the incident's folder as $1 and DDETECT_* in its environment."""
    environment = dict(os.environ) | {
        "DDETECT_INCIDENT": folder,
        "DDETECT_STATUS": incident.verdict.status.value,
        "DDETECT_CAUSE": incident.verdict.cause.value if incident.verdict.cause else "",
        "DDETECT_SUMMARY": incident.verdict.summary,
    }
    try:
        process = await asyncio.create_subprocess_shell(
            f"{command} {shlex.quote(folder)}", env=environment, stdin=asyncio.subprocess.DEVNULL
        )
        code = await process.wait()
        if code:
            log.warning("--on-hang command ended with %d: %s", code, command)
    except OSError as error:
        log.warning("could not run --on-hang command: %s", error)
