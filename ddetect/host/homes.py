"""Where code lives in a job's interpreter: asked of the job, never of the interpreter that runs ddetect.

Enters: what the probe wrote to RUN/homes, or a pid and the files that its stacks name. Leaves: CodeHomes; empty where
nothing could be learned. Remembered per set of facts, but the first answer reads hundreds of small files: for a thread
of its own. Never here: an exception, signals, ptrace, importing the job's code.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from posixpath import basename, dirname, isabs, join, normpath

from ddetect_probe import rundir

from ddetect.host.distributions import code_of_main, editable_code
from ddetect.host.proc import read_cmdline, read_environ, read_stat
from ddetect.model.homes import CodeHomes, Owner, join_homes, whose

_SITE = re.compile(r"^(/.*?/(?:site|dist)-packages)/")
_VERSION = re.compile(r"^python3(\.\d+t?)?$")
_SPAWNED = re.compile(r"from multiprocessing\.(spawn|forkserver) import")
_MOST_FILES, _MOST_BYTES, _MOST_ABOVE = 256, 65536, 4


@dataclass(frozen=True, slots=True)
class Facts:
    """What one interpreter is known to be: its folders, its `__main__`, and how to reach its files from here."""

    stdlib: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    main: str = ""  # the file
    module: str = ""  # of `python -m MODULE`
    root: str = ""  # /proc/PID/root of a process that sees other files than we do


def read_homes(run_dir: str) -> CodeHomes:
    """What the probes of this node told: one file for all ranks that said the same."""
    folder = os.path.join(run_dir, rundir.HOMES)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return CodeHomes()
    told = (parse_facts(_read(os.path.join(folder, name))) for name in names[:_MOST_FILES])
    return join_homes(homes_from(facts) for facts in told if facts is not None)


def homes_of_process(pid: int, files: Iterable[str] = ()) -> CodeHomes:
    """The same without a probe: by /proc, and by the files that the stacks of this process name."""
    return homes_from(facts_of_process(pid, files))


@lru_cache(maxsize=64)
def homes_from(facts: Facts) -> CodeHomes:
    """Look up what is installed there. What lies outside of every site folder is the user's without being listed."""
    plain = CodeHomes(facts.stdlib, facts.site)
    main = facts.main or _file_of(facts.module, facts.site, facts.root)
    mine = (*code_of_main(facts.site, main, facts.root), *editable_code(facts.site, facts.root))
    listed = [path for path in mine if whose(path + "/_.py", plain, frozenset()) is not Owner.USER]
    return CodeHomes(facts.stdlib, facts.site, tuple(dict.fromkeys(listed)))


def parse_facts(text: str) -> Facts | None:
    """Read what the probe wrote; None when it is not that."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    main, module = told.get("main"), told.get("module")
    return Facts(
        _folders(told.get("stdlib")),
        _folders(told.get("site")),
        main if isinstance(main, str) else "",
        module if isinstance(module, str) else "",
    )


def facts_of_process(pid: int, files: Iterable[str] = ()) -> Facts:
    """What /proc tells about an interpreter; a spawned child's `__main__` is that of the process that spawned it."""
    command, at = read_cmdline(pid), pid
    for _ in range(_MOST_ABOVE):
        if not any(map(_SPAWNED.match, command)) or (stat := read_stat(at)) is None:
            break
        at = stat.parent
        command = read_cmdline(at)
    main, module = main_of(command)
    if main and not isabs(main):
        main = join(_link(f"/proc/{at}/cwd"), main)
    root = _root(pid)
    seen = [found[1] for file in files if (found := _SITE.match(file)) is not None]
    program = command[0] if command and isabs(command[0]) else _link(f"/proc/{pid}/exe")
    site = [*seen, *_sites_of(read_environ(pid), program, root)]
    return Facts(site=_folders(site), main=normpath(main) if main else "", module=module, root=root)


def main_of(command: tuple[str, ...]) -> tuple[str, str]:
    """The script, or the module, that a command line of Python runs: ("/venv/bin/train", ""), ("", "acme.train")."""
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word == "-":
            return ("" if word == "-" else word), ""
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, "")
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cmWX":
                value = word[at:] or next(words, "")
                if letter in "cm":
                    return "", value if letter == "m" else ""
                break
    return "", ""


def _sites_of(environ: dict[str, str], program: str, root: str) -> list[str]:
    """The site folders that the environment and the program's own place point to."""
    prefixes = [environ.get("VIRTUAL_ENV", ""), environ.get("CONDA_PREFIX", ""), dirname(dirname(program))]
    found = [path for path in environ.get("PYTHONPATH", "").split(":") if _SITE.match(path + "/")]
    for prefix in dict.fromkeys(prefix for prefix in prefixes if len(prefix) > 1):
        for lib in ("lib", "lib64", "local/lib"):
            try:
                versions = [name for name in os.listdir(f"{root}{prefix}/{lib}") if _VERSION.match(name)]
            except OSError:
                continue
            paths = (
                f"{prefix}/{lib}/{name}/{kind}-packages" for name in versions for kind in ("site", "dist")
            )
            found += [path for path in paths if os.path.isdir(root + path)]
    return found


def _file_of(module: str, sites: tuple[str, ...], root: str) -> str:
    """Where `python -m MODULE` found its program, if in a site folder."""
    if not module or not all(part.isidentifier() for part in module.split(".")):
        return ""
    inside = module.replace(".", "/")
    places = (f"{site}/{inside}{end}" for site in sites for end in (".py", "/__main__.py"))
    return next((place for place in places if os.path.isfile(root + place)), "")


def _folders(told: object) -> tuple[str, ...]:
    paths = [path for path in told if isinstance(path, str) and isabs(path)] if isinstance(told, list) else []
    clean = dict.fromkeys(normpath(path) for path in paths)
    return tuple(path for path in clean if basename(path))[:64]


def _root(pid: int) -> str:
    """How to reach the files of a process in a container from outside of it; "" where it sees what we see."""
    theirs, ours = _link(f"/proc/{pid}/ns/mnt"), _link("/proc/self/ns/mnt")
    return f"/proc/{pid}/root" if theirs and theirs != ours else ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""
