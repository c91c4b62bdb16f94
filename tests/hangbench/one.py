"""One scenario under one tool, in a process of its own: `python -m tests.hangbench.one SCENARIO TOOL SEED FOLDER`.

Leaves: FOLDER/score.json beside whatever the tool kept. A process of its own, because whoever runs a job adopts its
orphans. When the bench ends, this ends its job and itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from ddetect.scenarios.catalogue import SCENARIOS
from tests.hangbench.draw import drawn
from tests.hangbench.outcome import Outcome, score
from tests.hangbench.tools.all import TOOLS

_PR_SET_PDEATHSIG = 1


def main(name: str, tool_name: str, seed: str, folder: Path) -> None:
    """Run it and write what it is worth; a tool that breaks has said nothing."""
    scenario, tool = SCENARIOS[name], TOOLS[tool_name]
    params = drawn(scenario, seed, attached=tool.attaches)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        outcome = tool.run(scenario, params, folder)
    except Exception:  # the bench goes on, and the table shows it
        outcome = Outcome(says=traceback.format_exc()[-1500:])
    told = asdict(score(tool_name, seed, scenario, params, outcome))
    (folder / "score.json").write_text(json.dumps(told, indent=1) + "\n")


def end_with_parent() -> None:
    """SIGTERM when the bench is gone, and SIGTERM unwinds: every `finally` ends what it started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:
        sys.exit(143)


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
