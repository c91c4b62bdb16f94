"""Play event logs again in a process of its own: `python -m tests.live.replayed EVENTS.ddlog ...` prints what came out.

Enters: the logs of incident folders. Leaves: for each a line of JSON: the verdicts of all incidents in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ddetect.coordinator.incidents import EVENTS
from ddetect.coordinator.replay import replay
from ddetect.report.json_ import verdict_json


def differences(out: Path) -> list[str]:
    """What is on disk otherwise than its own events tell, judged anew; a folder without events is one too."""
    folders = sorted(path.parent for path in out.glob("incident-*/verdict.json"))
    logs = [str(folder / EVENTS) for folder in folders]
    if not logs:
        return []
    ran = subprocess.run(
        [sys.executable, "-m", "tests.live.replayed", *logs], capture_output=True, text=True, timeout=120
    )
    if ran.returncode:
        return [f"the replay failed: {ran.stderr[-2000:]}"]
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    return [text for folder, again in zip(folders, told, strict=True) for text in _differences(folder, again)]


def _differences(folder: Path, again: list[dict[str, Any]]) -> list[str]:
    said = json.loads((folder / "verdict.json").read_text())
    same = [one for one in again if one["judged_at_unix_ns"] == said["judged_at_unix_ns"]]
    if not same:
        return [
            f"{folder.name} does not come out of its events; what does: {[one['summary'] for one in again]}"
        ]
    wrong = [name for name in said if name != "incident" and said[name] != same[0].get(name)]
    return [f"{folder.name}: {name} is {said[name]!r}, replayed {same[0].get(name)!r}" for name in wrong]


if __name__ == "__main__":
    for log in sys.argv[1:]:
        print(json.dumps([verdict_json(one) for one in replay(Path(log).read_bytes()).values()]))
