"""What ARCHITECTURE.md promises of imports and calls and import-linter cannot see; the rest is in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.api import read_configuration

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "launcher"
HOOKS = LAUNCHER / "ddetect_probe" / "hooks"
FRAMEWORKS = ROOT / "ddetect" / "frameworks"

BESIDE_THE_JOB = sys.stdlib_module_names | {"ddetect_probe", "ddetect_launcher", "ddetect_probe_autoload"}
PACKAGES_OF = {"torch": {"torch", "torchdata"}}  # what the hooks of a framework may import, once the job has

DOORS = re.compile(
    r"open|print|input|breakpoint|exec|eval|__import__"
    r"|\.(now|utcnow|today|sleep|open|read_text|read_bytes|write_text|write_bytes|mkdir|unlink|touch)\(\)"
)
USES = {  # modules with a harmless half: what deciding code may take of them
    "datetime": re.compile(r"datetime|timedelta|timezone"),
    "importlib": re.compile(r"(?!)"),
    "json": re.compile(r"loads|dumps"),
    "numpy": re.compile(r"(?!load|save|fromfile|genfromtxt|memmap|random|datetime64)\w+"),
    "signal": re.compile(r"SIG[A-Z0-9]+|Signals"),
    "sys": re.compile(r"stdlib_module_names|maxsize"),
}


def imports(
    tree: ast.AST, in_function: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, bool]]:
    """Every absolute import: where, of which top-level name, and whether only a call runs it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name.partition(".")[0], in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node, (node.module or "").partition(".")[0], in_function
        yield from imports(node, in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def foreign_imports(path: Path, text: str) -> list[str]:
    """What a file of the launcher or the probe imports beyond the standard library, its own, and a job's framework."""
    framework = path.relative_to(HOOKS).parts[0] if path.is_relative_to(HOOKS) else ""
    late = PACKAGES_OF.get(framework, set())
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for node, name, in_function in imports(ast.parse(text))
        if name not in BESIDE_THE_JOB and not (in_function and name in late)
    ]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a file names: `json.load` of a module, `open` of none, `.now()` of who knows what."""
    module_of: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                module_of[alias.asname or top] = alias.name if alias.asname else top
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in module_of:
                yield node.lineno, f"{module_of[node.value.id]}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.lineno, f".{node.func.attr}()"


def deeds(path: Path, text: str) -> list[str]:
    """Where a file of deciding code opens, prints, sleeps or asks for the time."""
    # Our own pattern files come with the package: importing frameworks reads them.
    of_ours = {"importlib.resources", ".read_text()"} if path.is_relative_to(FRAMEWORKS) else set()
    found = []
    for line, name in names(ast.parse(text)):
        module, _, rest = name.partition(".")
        harmless = USES.get(module)
        beyond = rest and harmless and not harmless.fullmatch(rest.partition(".")[0])
        if (beyond or DOORS.fullmatch(name)) and name not in of_ours:
            found.append(f"{path.relative_to(ROOT)}:{line} {name}")
    return found


def deciding_files() -> list[Path]:
    """The files of the modules that the contract `pure` in pyproject.toml names."""
    contracts = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    (pure,) = [contract for contract in contracts if contract.get("id") == "pure"]
    files: list[Path] = []
    for module in pure["source_modules"]:
        base = LAUNCHER if module.startswith("ddetect_") else ROOT
        place = base.joinpath(*module.split("."))
        files += sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return files


def test_probe_and_launcher_import_the_standard_library_only():
    """What runs in or beside the job needs no package; hooks import their framework's own, and only when called."""
    files = sorted(LAUNCHER.rglob("*.py"))

    assert LAUNCHER / "ddetect_probe" / "bootstrap" / "sitecustomize.py" in files
    assert [wrong for path in files for wrong in foreign_imports(path, path.read_text())] == []


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("page.py", "import numpy"),
        ("page.py", "def read():\n    from numpy import typing"),
        ("page.py", "def read():\n    import torch"),
        ("hooks/torch/groups.py", "import torch"),
        ("hooks/torch/groups.py", "if True:\n    from torch.distributed import barrier"),
        ("hooks/torch/groups.py", "def install():\n    import tensorflow"),
        ("start.py", "def start():\n    import ddetect.model"),
    ],
)
def test_foreign_import_in_the_probe_is_found(where, text):
    """A package, a framework too early, in the wrong folder, or ddetect itself."""
    assert len(foreign_imports(LAUNCHER / "ddetect_probe" / where, text)) == 1


def test_deciding_code_opens_prints_and_asks_the_time_nowhere():
    """`now` is an argument, and what is judged comes in as values."""
    files = deciding_files()

    assert ROOT / "ddetect" / "correlate" / "rules" / "fault.py" in files
    assert [wrong for path in files for wrong in deeds(path, path.read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "print('x')",
        "read = open",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as dt\ndt.datetime.today()",
        "folder.read_text()",
        "import sys\nsys.stderr",
        "from sys import argv",
        "import json\njson.load(handle)",
        "import numpy as np\nnp.load(x)",
        "import signal\nsignal.signal(15, stop)",
        "from importlib import resources",
        "from importlib.resources import files",
        "import importlib.resources\nimportlib.resources.files",
        "import numpy.random as dice\ndice.rand",
    ],
)
def test_deed_in_deciding_code_is_found(text):
    """A file, a stream, a clock, a signal's handler: each by the ways that one would write it."""
    assert len(deeds(ROOT / "ddetect" / "correlate" / "judge.py", text)) == 1
