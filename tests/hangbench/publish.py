"""Put a run of the bench into the README: `python -m tests.hangbench.publish NAME OUT...`, NAME one of TABLES.

Enters: OUT/results.json, or several that are parts of one run (other seeds, other tools, the same code). Leaves:
published/NAME.json, every run in one line, and the table between the README's markers. Never here: a figure that is not
in that file (tests/unit/hangbench holds the README against it), or a run of the suite that breaks a promise.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.hangbench.promises import PROMISES
from tests.hangbench.table import ends_markdown, seeds_markdown, summary, table_markdown, tensorflow_markdown
from tests.of_nobody import text_of_nobody

README = Path(__file__).parents[2] / "README.md"
PUBLISHED = Path(__file__).with_name("published")
TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "comparison": table_markdown,
    "suite": seeds_markdown,
    "tensorflow": tensorflow_markdown,
    "busy": seeds_markdown,
    "ends": ends_markdown,
}
SAYS = 160  # characters of a tool's own words that are kept


def between(name: str, readme: str) -> str:
    """What the README shows of a run."""
    found = _markers(name).search(readme)
    return found[2] if found else ""


def published(name: str) -> dict[str, Any]:
    """The run that was published."""
    run: dict[str, Any] = json.loads((PUBLISHED / f"{name}.json").read_text())
    return run


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parts of one run as one. Raises SystemExit when they are of different code or were made differently."""
    first = parts[0]
    for key in ("commit", "machine", "busy"):
        if len({part.get(key) for part in parts}) > 1:
            raise SystemExit(f"these are no parts of one run: their {key} differs")
    if len(parts) == 1:
        return dict(first)
    runs = [one for part in parts for one in part["runs"]]
    tools = {name: tool for part in parts for name, tool in part["tools"].items()}
    return {
        **first,
        "command": "`, `".join(part["command"] for part in parts),
        "lanes": min(part["lanes"] for part in parts),
        "planned": sum(part["planned"] for part in parts),
        "tools": {
            name: {**tool, **summary(one for one in runs if one["tool"] == name)}
            for name, tool in tools.items()
        },
        "runs": runs,
    }


def publish(name: str, *outs: Path) -> None:
    """Keep the run and show it."""
    run = joined([json.loads((out / "results.json").read_text()) for out in outs])
    if len(run["runs"]) != run["planned"]:
        raise SystemExit(
            f"{len(run['runs'])} of {run['planned']} runs are there: let the bench come to its end first"
        )
    if name in PROMISES and (problems := PROMISES[name](run)):
        raise SystemExit("not published, promises are broken:\n" + "\n".join(problems))
    for one in run["runs"]:
        for key in ("says", "failed", "left"):
            one["outcome"][key] = text_of_nobody(one["outcome"].get(key, ""))[:SAYS]
    head = {key: value for key, value in run.items() if key != "runs"}
    lines = ",\n".join(json.dumps(one) for one in run["runs"])
    PUBLISHED.mkdir(exist_ok=True)
    (PUBLISHED / f"{name}.json").write_text(f'{json.dumps(head, indent=1)[:-2]},\n "runs": [\n{lines}\n]}}\n')
    table = TABLES[name](run)
    README.write_text(_markers(name).sub(lambda found: f"{found[1]}{table}{found[3]}", README.read_text()))


def _markers(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- hangbench {name} -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


if __name__ == "__main__":
    publish(sys.argv[1], *map(Path, sys.argv[2:]))
