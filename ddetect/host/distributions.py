"""Which installed code is the user's: the distribution that holds `__main__`, and editable installs.

Enters: the job's site folders and its `__main__`; the folders are read from outside, as files, by their metadata
(RECORD, entry_points.txt, top_level.txt, direct_url.json). Leaves: paths.
Never here: importing anything of the job, an exception for a file that is not there, a search without an end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from posixpath import basename, dirname, join, normpath
from urllib.parse import unquote, urlsplit

MOST_DISTRIBUTIONS = 4096
MOST_PATHS = 64
_BYTES, _RECORD_BYTES = 1 << 18, 1 << 23

RUNNERS = frozenset(
    (
        "torch", "accelerate", "deepspeed", "horovod", "ray", "mpi4py", "lightning_fabric", "colossalai", "submitit",
        "pytest", "_pytest", "ipykernel_launcher", "ipykernel", "IPython", "jupyter_core", "papermill", "debugpy",
        "pydevd", "coverage", "memray", "scalene", "viztracer", "line_profiler", "kernprof", "wandb", "ddetect",
        "ddetect_launcher",
    )
)  # fmt: skip
"""Packages that are `__main__` only to run somebody else's program: what they are installed with is not the user's."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution: its metadata folder and the site folder it is in."""

    site: str
    info: str
    root: str = ""  # what stands before every path to reach it from here

    def read(self, name: str, limit: int = _BYTES) -> str:
        """A file of its metadata; "" if there is none, or one too big to be it."""
        return _read(f"{self.root}{self.site}/{self.info}/{name}", limit)

    @property
    def name(self) -> str:
        """Its name as packages are spelled: "acme_train"."""
        return re.sub(r"[-_.]+", "_", self.info.rpartition(".")[0].partition("-")[0]).lower()


def distributions(sites: Iterable[str], root: str = "") -> Iterator[Distribution]:
    """What is installed in these folders, in their order."""
    for site in sites:
        try:
            names = sorted(os.listdir(root + site))
        except OSError:
            continue
        infos = [name for name in names if name.endswith((".dist-info", ".egg-info"))]
        yield from (Distribution(site, name, root) for name in infos[:MOST_DISTRIBUTIONS])


def code_of_main(sites: tuple[str, ...], main: str, root: str = "") -> tuple[str, ...]:
    """The packages of the distribution that holds this `__main__`; empty where it is none that is installed."""
    if not main:
        return ()
    site = max((one for one in sites if main.startswith(one + "/")), key=len, default="")
    if site:
        inside = main[len(site) + 1 :]
        top = inside.partition("/")[0]
        if top.removesuffix(".py") in RUNNERS:
            return ()
        owner = _owner(site, inside, root)
        return _code(owner) if owner is not None else (f"{site}/{top}",)
    if basename(dirname(main)) not in ("bin", "Scripts"):
        return ()
    found = _of_script(sites, basename(main), root)
    return _code(found) if found is not None else ()


def editable_code(sites: tuple[str, ...], root: str = "") -> tuple[str, ...]:
    """Project folders that are installed in place, and the links through which a site folder reaches them."""
    projects = dict.fromkeys(path for one in distributions(sites, root) if (path := _project(one)))
    links = (
        link for site in sites if projects for link, target in _links(site, root) if _in(target, projects)
    )
    return tuple([*projects, *links][:MOST_PATHS])


def _project(distribution: Distribution) -> str:
    """Where an editable install has its sources, by PEP 610."""
    text = distribution.read("direct_url.json")
    if not text:
        return ""
    try:
        told = json.loads(text)
        url = urlsplit(told["url"]) if told["dir_info"]["editable"] is True else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    path = normpath(unquote(url.path)) if url is not None and url.scheme == "file" else ""
    return path if path.count("/") > 1 else ""  # "/" and "/home" are nobody's project


def _links(site: str, root: str) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(root + site) as entries:
            for entry in entries:
                if entry.is_symlink():
                    path = f"{site}/{entry.name}"
                    yield path, normpath(join(site, os.readlink(root + path)))
    except OSError:
        return


def _in(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _owner(site: str, inside: str, root: str) -> Distribution | None:
    """The distribution that installed this file: one of its package's name is asked first, records are long."""
    top = inside.partition("/")[0].removesuffix(".py").lower()
    every = sorted(distributions((site,), root), key=lambda one: one.name != top)
    for one in every:
        files = _recorded(one)
        if inside in files or (not files and top in one.read("top_level.txt").lower().split()):
            return one
    return None


def _of_script(sites: tuple[str, ...], script: str, root: str) -> Distribution | None:
    """The distribution whose console script, or plain script, this is."""
    every = list(distributions(sites, root))
    for one in every:
        module = _entry(one.read("entry_points.txt"), script)
        if module:
            return None if module.partition(".")[0] in RUNNERS else one
    ending = f"/bin/{script}"
    for one in every:
        if any(path.startswith("../") and path.endswith(ending) for path in _recorded(one)):
            return None if one.name in RUNNERS else one
    return None


def _entry(text: str, script: str) -> str:
    """The module that a script of this name calls: "acme.cli" of "acme-train = acme.cli:main"."""
    section = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]").strip()
        name, equals, target = line.partition("=")
        if equals and section in ("console_scripts", "gui_scripts") and name.strip() == script:
            return target.partition(":")[0].strip()
    return ""


def _recorded(distribution: Distribution) -> list[str]:
    lines = distribution.read("RECORD", _RECORD_BYTES).splitlines()
    return [line.split(",", 1)[0].strip('"') for line in lines]


def _code(distribution: Distribution) -> tuple[str, ...]:
    """The packages and modules of a distribution; of a namespace that it shares only what is its own."""
    files = [
        path for path in _recorded(distribution) if path.endswith(".py") and not path.startswith(("/", ".."))
    ]
    if not files:
        names = distribution.read("top_level.txt").split()
        at = [f"{distribution.site}/{name}" for name in names]
        return tuple(path for one in at for path in (one, one + ".py"))[:MOST_PATHS]
    packages = {dirname(path) for path in files if basename(path) == "__init__.py"}
    roots = dict.fromkeys(_package(path, packages) for path in files)
    return tuple(f"{distribution.site}/{root}" for root in roots)[:MOST_PATHS]


def _package(path: str, packages: set[str]) -> str:
    """The outermost package that holds a file; without one its folder, and at the top the file itself."""
    parts = dirname(path).split("/")
    outer = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((folder for folder in outer if folder in packages), dirname(path) or path)


def _read(path: str, limit: int) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(limit + 1)
    except OSError:
        return ""
    return text if len(text) <= limit else ""
