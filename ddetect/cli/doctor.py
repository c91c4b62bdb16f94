"""`ddetect doctor`: say what works on this host, by doing it, and how to fix what does not.

Enters: this host. Leaves: one line per ability on stdout, an exit code: 0 if detection can work here.
Never here: guesses where a try is possible; anything left behind (files, sockets, processes).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ddetect.cli.abilities import FAIL, OK, WARN, Ability, try_all
from ddetect.cli.look import wants_color

NEXT = "ddetect launch torchrun --nproc-per-node 8 train.py (TensorFlow: ddetect launch python train.py)"
_STYLES = {OK: "32", WARN: "33", FAIL: "1;31"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ddetect doctor`."""
    parser.epilog = "example:\n  ddetect doctor"
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Try everything, print all of it, 1 if something that detection needs has failed."""
    abilities = try_all()
    works = all(ability.state != FAIL for ability in abilities)
    if args.json:
        said = {"schema": 1, "works": works, "abilities": [asdict(ability) for ability in abilities]}
        sys.stdout.write(json.dumps(said, indent=1) + "\n")
    else:
        sys.stdout.write(format_abilities(abilities, color=wants_color(sys.stdout)))
    return 0 if works else 1


def format_abilities(abilities: tuple[Ability, ...], *, color: bool = False) -> str:
    """A line each, the remedy below what is not well, and the answer last."""
    width = max(len(ability.name) for ability in abilities)
    lines: list[str] = []
    for ability in abilities:
        word = f"{ability.state:<4}"
        shown = f"\x1b[{_STYLES[ability.state]}m{word}\x1b[0m" if color else word
        lines.append(f"{shown}  {ability.name:<{width}}  {ability.found}")
        if ability.state != OK and ability.remedy:
            lines += [f"{'':<{width + 8}}{line}" for line in ability.remedy.splitlines()]
    failed = [ability.name for ability in abilities if ability.state == FAIL]
    lines.append("")
    if failed:
        lines.append(f"Detection cannot work here until this is fixed: {', '.join(failed)}.")
    else:
        lines.append(f"Detection can work here. Next: {NEXT}")
    return "\n".join(lines) + "\n"
