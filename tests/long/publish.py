"""Put a run of the exam into the README: `python -m tests.long.publish [OUT ...]`; without one, what `make` has left.

Enters: OUT/results.json. Leaves: published.json, every run in one line, and the tables between the README's markers.
Never here: a figure that is not in that file (tests/unit/long holds the README against it), or a run that breaks a
promise.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.long.promises import PROMISES
from tests.long.table import NOTES, markdown
from tests.of_nobody import text_of_nobody

README = Path(__file__).parents[2] / "README.md"
PUBLISHED = Path(__file__).with_name("published.json")
NOT_YET = "Not published yet: `make long` and `make long-twins`, then `python -m tests.long.publish`.\n"
OUTS = (Path("long-out"), Path("long-twins-out"))  # where the Makefile has them
SAYS = 160  # characters of what was said that are kept
_MARKERS = re.compile(r"(<!-- long -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


def between(readme: str) -> str:
    """What the README shows."""
    found = _MARKERS.search(readme)
    return found[2] if found else ""


def published() -> dict[str, Any]:
    """The runs that were published, by their suite; none if there is none yet."""
    return json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}


def shown(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """The text that belongs into the README."""
    tables = [markdown(runs[suite]) for suite in PROMISES if suite in runs]
    return "\n".join([*tables, NOTES, ""]) if tables else NOT_YET


def publish(*outs: Path) -> None:
    """Keep the runs and show them; of a suite that is not among them the last one stays."""
    runs = published()
    for out in outs:
        run = json.loads((out / "results.json").read_text())
        if len(run["runs"]) != run["planned"]:
            raise SystemExit(
                f"{len(run['runs'])} of {run['planned']} runs are there: let it come to its end first"
            )
        if problems := PROMISES[run["suite"]](run):
            raise SystemExit("not published, promises are broken:\n" + "\n".join(problems))
        for one in run["runs"]:
            for key in ("says", "failed", "left"):
                one[key] = text_of_nobody(one[key])[:SAYS]
        runs[run["suite"]] = run
    PUBLISHED.write_text(_format(runs))
    README.write_text(_MARKERS.sub(lambda found: f"{found[1]}{shown(runs)}{found[3]}", README.read_text()))


def _format(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """JSON with a line for each run."""
    suites = []
    for suite, run in runs.items():
        head = json.dumps({key: value for key, value in run.items() if key != "runs"}, indent=1)[:-2]
        lines = ",\n".join(json.dumps(one) for one in run["runs"])
        suites.append(f'"{suite}": {head},\n "runs": [\n{lines}\n]}}')
    return "{\n" + ",\n".join(suites) + "\n}\n"


if __name__ == "__main__":
    outs = [Path(word) for word in sys.argv[1:]] or [out for out in OUTS if (out / "results.json").exists()]
    if not outs:
        raise SystemExit(
            f"there is no results.json in {' or '.join(map(str, OUTS))}: name the --out of a run"
        )
    publish(*outs)
