"""The user's command line with a wrapper in front of the program. Pure, but for the wrapper's path."""

from __future__ import annotations

from pathlib import Path

from ddetect.scenarios.catalogue import Params, Scenario, command

WRAPPERS = Path(__file__).parent.parent / "wrappers"
STARTS_ITSELF = "the program starts its own ranks: there is no torchrun command line to put a wrapper into"


def through(wrapper: str, scenario: Scenario, params: Params) -> list[str]:
    """torchrun, the wrapper, the program and its options."""
    words = command(scenario, params)
    place = words.index(str(scenario.path))
    return [*words[:place], str(WRAPPERS / f"{wrapper}.py"), *words[place:]]
