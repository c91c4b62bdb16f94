"""One scenario under one tool, in a process of its own:
`python -m tests.hangbench.one SCENARIO TOOL SEED FOLDER N PARENT [END]`.

Leaves: FOLDER/score.json beside whatever the tool kept, and nothing that was in FOLDER before. N: the least number of
ranks. PARENT: the bench's pid. END: by its name, instead of the seed's. A process of its own, because whoever runs a
job adopts its orphans. When the bench ends, this ends its job and itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from dataclasses import asdict, replace
from pathlib import Path

from ddetect.scenarios.catalogue import SCENARIOS, Params, Scenario
from tests.hangbench.draw import drawn
from tests.hangbench.ends import BY_NAME, ending
from tests.hangbench.evidence import evidence_in
from tests.hangbench.outcome import Outcome, score
from tests.hangbench.tools.all import TOOLS
from tests.hangbench.tools.tool import Tool
from tests.live.ends import End

PAUSES = "the program announces its pause with ddetect_probe.pause, which only `ddetect launch` hears"
_PR_SET_PDEATHSIG = 1


def main(name: str, tool_name: str, seed: str, folder: Path, min_world: int = 2, end: str = "") -> None:
    """Run it and write what it is worth."""
    scenario, tool = SCENARIOS[name], TOOLS[tool_name]
    params = drawn(scenario, seed, attached=tool.attaches, min_world=min_world)
    make_empty(folder)
    outcome = outcome_of(tool, scenario, params, folder, BY_NAME[end] if end else ending(scenario, seed))
    told = asdict(score(tool_name, seed, scenario, params, outcome))
    (folder / "score.json").write_text(json.dumps(told, indent=1) + "\n")


def outcome_of(
    tool: Tool, scenario: Scenario, params: Params, folder: Path, end: End | None = None
) -> Outcome:
    """What the tool did; a tool that breaks has said nothing and failed, and the bench goes on."""
    if scenario.framework not in tool.frameworks:
        return Outcome(cannot=f"{tool.name} does not know {scenario.framework}")
    if "ddetect_probe" in scenario.path.read_text() and not tool.hears_pause:
        return Outcome(cannot=PAUSES)
    try:
        outcome = (
            tool.run_to_end(scenario, params, folder, end)
            if tool.run_to_end
            else tool.run(scenario, params, folder)
        )
    except Exception:  # whatever it is, the table shows it
        outcome = Outcome(failed=traceback.format_exc()[-1500:])
    if outcome.cannot:
        return outcome
    return replace(outcome, evidence=evidence_in(folder, log=tool.speaks_in_log))


def make_empty(folder: Path) -> None:
    """A folder with nothing of an earlier run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _unwind(number: int, _: object) -> None:
    """End, once: told again on its way out (by whoever ends the whole group) it would leave its job behind."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(143)


def end_with_parent(parent: int) -> None:
    """SIGTERM when the bench is gone, and SIGTERM unwinds: every `finally` ends what it started."""
    signal.signal(signal.SIGTERM, _unwind)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended already
        sys.exit(143)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[6]))
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]), *sys.argv[7:])
