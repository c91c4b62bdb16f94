"""How a run directory is laid out is written down once."""

from __future__ import annotations

import re
from pathlib import Path

from ddetect_probe import rundir

ROOT = Path(__file__).parents[3]
NAMES = {
    rundir.LOCK, rundir.JOB, rundir.AGENT_SOCKET, rundir.COORDINATOR_SOCKET, rundir.STATUS, rundir.SUMMARY,
    rundir.FAULTS, rundir.PAGES, rundir.SOCKETS, rundir.HOMES,
}  # fmt: skip


def test_names_of_the_run_directory_are_spelled_in_one_file():
    """Whoever joins a path spells no name of ours: a string that is one, or ends as one, stands in rundir.py only."""
    name = f"f?[\"']({'|'.join(map(re.escape, sorted(NAMES)))})[\"']"
    spelled = re.compile(rf"join\([^\n]*{name}|/ {name}")
    files = [path for folder in ("ddetect", "launcher") for path in sorted((ROOT / folder).rglob("*.py"))]

    assert spelled.search('os.path.join(run_dir, "pages")')
    assert spelled.search('run_dir / "members.lock"')
    found = [str(path.relative_to(ROOT)) for path in files if spelled.search(path.read_text())]
    assert found == []


def test_what_runs_here_is_read_as_it_was_written(tmp_path):
    """The first launcher of a node says it; who comes second changes nothing."""
    assert rundir.read_about(str(tmp_path)) is None
    first = rundir.About("night", ("torchrun", "train.py"), 12, 5.0, "/out")
    rundir.write_about(str(tmp_path), first)
    rundir.write_about(str(tmp_path), rundir.About("other"))

    assert rundir.read_about(str(tmp_path)) == first


def test_half_a_job_file_is_none(tmp_path):
    """What is no JSON object, or has other kinds of values in it, is no run directory."""
    for text in ("", "[]", '"x"', '{"started_unix": "soon"}', '{"job": "x"'):
        (tmp_path / rundir.JOB).write_text(text)
        assert rundir.read_about(str(tmp_path)) is None
