"""How a job is, between verdicts: the live line, and the table of `ddetect status`.

Enters: counts, columns (Roster, Beats), the open verdict. Leaves: text. Equal ranks are folded into one row.
Never here: I/O, colours, gRPC, judging.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ddetect.model import Beats, Ints, Phase, Roster, Verdict
from ddetect.rankset import format_ranks
from ddetect.report.words import clean, format_duration, name_members

_MANY_ROWS = 24  # more rows than this are folded again, without their step

PAUSED = "all ranks are stopped (SIGSTOP)"
"""What is said of a job whose state is `paused`."""

_STATES = {"T": "stopped", "t": "traced", "D": "in the kernel", "Z": "zombie", "X": "gone"}


def format_status_line(
    *,
    state: str,
    ranks_seen: int,
    world_size: int,
    step: int = 0,
    steps_per_s: float = 0.0,
    stalled_for_s: float = 0.0,
    verdict: Verdict | None = None,
    summary: str = "",
    blind: str = "",
) -> str:
    """The live line. `state`: starting, moving, paused, suspected, ...; `blind`: what is not seen.

    A verdict is said in three words; `summary` is said whole where there is no verdict at hand.
    """
    seen = f"{ranks_seen}/{world_size} ranks" if world_size > 0 else f"{ranks_seen} ranks"
    parts = [seen]
    if step > 0:
        parts.append(f"step {step}")
    if state in ("suspected", "confirmed"):
        parts.append(f"{_stillness(step, stalled_for_s)}: {_suspicion(state, verdict, summary)}")
    elif state == "paused":
        parts.append(f"{state}: {PAUSED}")
    else:
        if steps_per_s > 0:
            parts.append(format_rate(steps_per_s))
        parts.append(clean(summary) if state == "noticed" and summary else clean(state))
    if blind:
        parts.append(clean(blind))
    return f"ddetect: {', '.join(parts)}"


def _stillness(step: int, stalled_for_s: float) -> str:
    return f"no {'step' if step > 0 else 'progress'} for {format_duration(stalled_for_s)}"


def _suspicion(state: str, verdict: Verdict | None, summary: str) -> str:
    if verdict is None:
        return f"{state}, {clean(summary)}" if summary else "looking why"
    cause = f" ({verdict.cause.value})" if verdict.cause else ""
    word = "suspect" if state == "suspected" else verdict.status.value.upper()
    if not verdict.culprits:
        return f"{word}{cause or ' ' + verdict.status.value}"
    return f"{word} {name_members(verdict.culprit_members, verdict.names)}{cause}"


def format_rate(steps_per_s: float) -> str:
    """How fast it steps; of slow steps, how long one takes: 0.005 steps/s tells nobody anything."""
    if steps_per_s >= 0.95:
        return f"{steps_per_s:.1f} steps/s"
    return f"{1 / steps_per_s:.1f} s per step"


@dataclass(frozen=True, slots=True)
class Row:
    """Ranks that are alike: one line of the table. Ages are those of the rank that waits longest."""

    ranks: tuple[int, ...]
    lanes: tuple[int, ...]
    steps: tuple[int, int]  # lowest and highest
    phase: Phase
    state: str
    has_page: bool
    phase_age_s: float
    step_age_s: float
    nodes: tuple[str, ...]
    pids: tuple[int, ...]


def fold_rows(roster: Roster, beats: Beats) -> tuple[Row, ...]:
    """Put ranks that do the same into one row: step, phase, process state, page; lowest rank first."""
    if len(roster) != len(beats):
        raise ValueError(f"{len(roster)} ranks in the roster and {len(beats)} beats do not belong together")
    rows = _fold(roster, beats, (beats.step, beats.phase, beats.state, beats.has_page))
    if len(rows) > _MANY_ROWS:
        rows = _fold(roster, beats, (beats.phase, beats.state, beats.has_page))
    return rows


def _fold(roster: Roster, beats: Beats, keys: tuple[Ints, ...]) -> tuple[Row, ...]:
    if not len(roster):
        return ()
    # R and S alternate from one look to the next: for a reader they are both "running as it should"
    plain = np.isin(beats.state, (ord("R"), ord("S"), ord("I")))
    state = np.where(plain, ord("S"), beats.state)
    table = np.stack([state if key is beats.state else key for key in keys])
    _, which = np.unique(table, axis=1, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    classes = np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
    rows = (_row(roster, beats, members) for members in classes)
    return tuple(sorted(rows, key=lambda row: (row.ranks, row.lanes)))


def _row(roster: Roster, beats: Beats, members: Ints) -> Row:
    first = int(members[0])
    nodes = sorted({int(node) for node in roster.node[members]})
    return Row(
        ranks=tuple(sorted({int(rank) for rank in roster.rank[members]})),
        lanes=tuple(sorted({int(lane) for lane in roster.lane[members]})),
        steps=(int(beats.step[members].min()), int(beats.step[members].max())),
        phase=_phase(int(beats.phase[first])),
        state=chr(int(beats.state[first])) if beats.state[first] > 0 else "X",
        has_page=bool(beats.has_page[first]),
        phase_age_s=float(beats.phase_age_s[members].max()),
        step_age_s=float(beats.step_age_s[members].max()),
        nodes=tuple(roster.nodes[node] for node in nodes if 0 <= node < len(roster.nodes)),
        pids=tuple(int(pid) for pid in roster.pid[members][:1]) if len(members) == 1 else (),
    )


def _phase(number: int) -> Phase:
    try:
        return Phase(number)
    except ValueError:  # a newer agent knows phases that we do not
        return Phase.OTHER


def format_status_table(rows: Sequence[Row]) -> str:
    """Every rank's step, phase and age, one line per class of equal ranks; empty text without rows."""
    if not rows:
        return ""
    table: list[tuple[str, ...]] = [("RANKS", "STEP", "LAST STEP", "PHASE", "FOR", "PROCESS", "WHERE")]
    table += [_cells(row) for row in rows]
    if any(lane > 0 for row in rows for lane in row.lanes):  # members that share a process
        lanes = ["LANES", *(format_ranks(row.lanes) for row in rows)]
        table = [(line[0], lane, *line[1:]) for line, lane in zip(table, lanes, strict=True)]
    return format_table(table)


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.steps
    return (
        format_ranks(row.ranks),
        "?" if not row.has_page else str(low) if low == high else f"{low}-{high}",
        "-" if math.isinf(row.step_age_s) else f"{format_duration(row.step_age_s)} ago",
        row.phase.name.lower() if row.has_page else "unknown (no probe)",
        "-" if math.isinf(row.phase_age_s) or not row.has_page else format_duration(row.phase_age_s),
        _STATES.get(row.state, "alive"),
        _place(row),
    )


def _place(row: Row) -> str:
    if len(row.nodes) > 1:
        return f"{len(row.nodes)} nodes"
    node = clean(row.nodes[0]) if row.nodes else ""
    return f"{node} pid {row.pids[0]}".strip() if row.pids else node


def format_table(table: Iterable[tuple[str, ...]]) -> str:
    """Left-aligned columns, two spaces apart."""
    lines = list(table)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )
