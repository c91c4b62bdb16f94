"""Where code lives in a job's interpreter: told by the probe, or found by /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddetect.host.homes import (
    Facts,
    facts_of_process,
    homes_from,
    homes_of_process,
    main_of,
    parse_facts,
    read_homes,
)
from ddetect.model.homes import CodeHomes, Owner, whose
from tests.unit.host.test_distributions import Site


@pytest.mark.parametrize(
    ("command", "main"),
    [
        ("python train.py --lr 1", ("train.py", "")),
        ("python -u /venv/bin/acme-train", ("/venv/bin/acme-train", "")),
        ("python -u -m acme.train -c x", ("", "acme.train")),
        ("python -um acme.train", ("", "acme.train")),
        ("python -macme", ("", "acme")),
        ("python -W ignore -Xdev -X importtime train.py", ("train.py", "")),
        ("python --check-hash-based-pycs never train.py", ("train.py", "")),
        ("python -c code train.py", ("", "")),
        ("python - train.py", ("", "")),
        ("python", ("", "")),
    ],
)
def test_command_line_tells_what_main_is(command, main):
    """The way Python itself reads its options."""
    assert main_of(tuple(command.split())) == main


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_what_the_probe_did_not_write_is_no_fact(text):
    """Half a file, or somebody else's."""
    assert parse_facts(text) is None


def test_strange_values_in_the_probes_file_are_dropped():
    """The folder belongs to the user, who may write anything there."""
    told = {
        "stdlib": "x",
        "site": [3, "relative", "/", "/a/../venv/site-packages/"],
        "main": 4,
        "module": None,
    }

    assert parse_facts(json.dumps(told)) == Facts(site=("/venv/site-packages",))


def test_probes_of_a_node_are_read_together(tmp_path: Path):
    """Two programs in one job: the packages of both are the user's."""
    site = Site(tmp_path / "venv")
    folder = tmp_path / "run/homes"
    folder.mkdir(parents=True)
    for name in ("actor", "learner"):
        site.install(name, f"{name}/__init__.py", f"{name}/run.py")
        facts = {"stdlib": ["/usr/lib/python3.11"], "site": [site.path], "main": f"{site.path}/{name}/run.py"}
        (folder / f"{name}.json").write_text(json.dumps(facts))
    (folder / "broken.json").write_text("{")
    (folder / "unfinished.json.12").write_text(json.dumps({"site": ["/unfinished/site-packages"]}))

    assert read_homes(str(tmp_path / "run")) == CodeHomes(
        ("/usr/lib/python3.11",), (site.path,), (f"{site.path}/actor", f"{site.path}/learner")
    )
    assert read_homes(str(tmp_path)) == CodeHomes()


def test_module_is_found_in_the_site_folder_where_only_its_name_is_known(tmp_path: Path):
    """Attach knows `-m acme` and no file."""
    site = Site(tmp_path / "venv")
    site.install("acme", "acme/__init__.py", "acme/__main__.py")

    assert homes_from(Facts(site=(site.path,), module="acme")).user == (f"{site.path}/acme",)
    assert homes_from(Facts(site=(site.path,), module="../acme")).user == ()


def test_editable_project_is_listed_only_where_its_path_does_not_tell(tmp_path: Path):
    """What lies outside is the user's anyway; what lies in a folder of Python's is not, unless it is listed."""
    site = Site(tmp_path / "venv")
    inside = tmp_path / "venv/lib/python3.11/ours"
    for name, project in (("outer", tmp_path / "project"), ("inner", inside)):
        url = f'{{"url": "{project.as_uri()}", "dir_info": {{"editable": true}}}}'
        site.install(name, direct_url_json=url)

    homes = homes_from(Facts(site=(site.path,)))

    assert homes.user == (str(inside),)
    assert whose(f"{inside}/train.py", homes, frozenset()) is Owner.USER


def test_process_without_a_probe_is_known_by_its_command_and_its_stacks(tmp_path: Path):
    """A console script in a venv whose folder only a frame shows."""
    site = Site(tmp_path / "venv")
    site.install("acme", "acme/__init__.py", entry_points_txt="[console_scripts]\nacme-train = acme:main\n")
    site.bin.mkdir()
    script = site.bin / "acme-train"
    script.write_text("import sys\nprint('ready', flush=True)\nsys.stdin.read()\n")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{tmp_path}/more/site-packages"}
    with subprocess.Popen(
        [sys.executable, "bin/acme-train"], cwd=tmp_path / "venv", env=environ, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        files = (f"{site.path}/torch/nn.py", "/job/train.py", "<frozen runpy>")
        facts = facts_of_process(process.pid, files)
        homes = homes_of_process(process.pid, files)
        process.communicate("")

    assert (facts.main, facts.root) == (str(script), "")
    assert facts.site[0] == site.path
    assert f"{tmp_path}/more/site-packages" in facts.site
    assert homes.user == (f"{site.path}/acme",)


SPAWNS = """
import multiprocessing, sys

def child():
    print(multiprocessing.current_process().pid, flush=True)
    sys.stdin = open(0)
    sys.stdin.read()

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""


def test_spawned_rank_has_the_main_of_its_parent(tmp_path: Path):
    """`mp.spawn` starts `python -c 'from multiprocessing.spawn ...'`."""
    program = tmp_path / "train.py"
    program.write_text(SPAWNS)
    with subprocess.Popen(
        [sys.executable, str(program)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        facts = facts_of_process(int(process.stdout.readline()))
        process.communicate("")

    assert facts.main == str(program)


def test_process_that_is_gone_tells_nothing():
    """And is no error."""
    assert homes_of_process(2**22 + 1) == CodeHomes()
