from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ddetect_probe import page, start

from tests.unit.probe.conftest import BOOTSTRAP, Job


def interpreters() -> list[str]:
    """This Python, and every other supported one the machine has."""
    found = {}
    for minor in (9, 10, 12, 13):
        name = f"python3.{minor}"
        candidates = [
            shutil.which(name),
            *map(str, Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*/bin/python")),
        ]
        found[name] = next((c for c in candidates if c and os.access(c, os.X_OK) and "shims" not in c), None)
    return [sys.executable, *(path for path in found.values() if path)]


LOOK = """
import json, sys
import torch
import ddetect_probe
with ddetect_probe.pause("eval"):
    ddetect_probe.step()
print(json.dumps({"path": sys.path, "custom": getattr(sys, "user_custom", None), "probe": ddetect_probe.__file__}))
"""


@pytest.mark.parametrize("python", interpreters(), ids=lambda p: Path(p).parts[-3])
def test_import_of_torch_makes_a_page(job: Job, fake_torch: str, python: str) -> None:
    """In every supported Python, without ddetect installed there, and without touching the job's sys.path."""
    job.write("site/sitecustomize.py", "import sys\nsys.user_custom = 'ran'\n")

    done = job.finish(job.write("train.py", LOOK), python=python, path=fake_torch, RANK="3", WORLD_SIZE="4")

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["custom"] == "ran"
    launcher = str(Path(told["probe"]).parent.parent)
    if python != sys.executable:
        assert launcher not in told["path"]
    (seen,) = job.pages()
    header = seen.header()
    assert (header[page.S_ROLE], header[page.S_RANK], header[page.S_WORLD]) == (page.ROLE_RANK, 3, 4)
    assert (seen.lanes()[0].steps, header[page.S_EXIT]) == (1, page.EXITED)
    assert (seen.frameworks(), "step_hooks" in seen.hooks_off()) == (
        ["torch"],
        True,
    )  # a torch with nothing in it


def test_program_without_torch_gets_no_page(job: Job) -> None:
    """Helpers, pip and resource trackers are not watched."""
    done = job.finish(job.write("helper.py", "print('done')"), RANK="0")

    assert (done.stdout, done.stderr, job.pages()) == ("done\n", "", [])


def test_switched_off_probe_stays_away_but_importable(job: Job, fake_torch: str) -> None:
    """DDETECT_PROBE=0 leaves no page, and the user's own `import ddetect_probe` still works."""
    done = job.finish(job.write("train.py", LOOK), path=fake_torch, DDETECT_PROBE="0")

    assert (done.returncode, done.stderr, job.pages()) == (0, "", [])


@pytest.mark.parametrize("program", ["torchrun", "accelerate"])
def test_launcher_gets_no_page(job: Job, fake_torch: str, program: str) -> None:
    """torchrun imports torch and starts ranks, but is none."""
    done = job.finish(job.write(program, "import torch"), path=fake_torch)

    assert (done.returncode, done.stderr, job.pages()) == (0, "", [])


def test_users_broken_sitecustomize_is_reported_as_without_us(job: Job, fake_torch: str) -> None:
    """Python's own complaint about it is byte for byte the same, and the probe still starts."""
    job.write("site/sitecustomize.py", "raise RuntimeError('user mistake')\n")
    program = job.write("train.py", "import torch")

    plain = job.finish(program, probe=False, path=fake_torch)
    watched = job.finish(program, path=fake_torch)

    assert "user mistake" in plain.stderr
    assert watched.stderr == plain.stderr
    assert len(job.pages()) == 1


def test_helper_that_a_rank_starts_is_not_a_second_rank(job: Job, fake_torch: str) -> None:
    """RANK is inherited; the descendant of a rank process is a child of that rank."""
    job.write("helper.py", "import torch")
    program = job.write(
        "train.py", "import subprocess, sys, torch\nsubprocess.run([sys.executable, 'helper.py'], check=True)"
    )

    done = job.finish(program, path=fake_torch, RANK="2", WORLD_SIZE="4")

    assert (done.returncode, done.stderr) == (0, "")
    roles = sorted((p.header()[page.S_ROLE], p.header()[page.S_RANK]) for p in job.pages())
    assert roles == [(page.ROLE_RANK, 2), (page.ROLE_CHILD, 2)]


def test_import_that_fails_reads_as_without_us(job: Job) -> None:
    """A broken torch prints the same traceback, with no frame of ours in it."""
    job.write("site/torch/__init__.py", "import no_such_module_for_torch\n")
    site = str(job.folder / "site")
    program = job.write("train.py", "import torch")

    plain = job.finish(program, probe=False, path=site)
    watched = job.finish(program, path=site)

    assert "no_such_module_for_torch" in plain.stderr
    assert watched.stderr == plain.stderr


def test_import_that_fails_wakes_nothing_and_the_next_one_does(job: Job) -> None:
    """A half-made torch is not hooked; looking for torch does not spend the hook either."""
    job.write(
        "site/torch/__init__.py",
        "import sys\nglobals().update({f'name_{n}': n for n in range(20)})\n"
        "if not hasattr(sys, 'again'): raise OSError\n",
    )
    program = job.write(
        "train.py",
        "import importlib.util, os, sys\n"
        "pages = os.environ['DDETECT_RUN_DIR'] + '/pages'\n"
        "importlib.util.find_spec('torch')\n"
        "try:\n    import torch\nexcept OSError:\n    print(len(os.listdir(pages)))\n"
        "sys.again = 1\nimport torch\n"
        "print(len(os.listdir(pages)), type(torch.__spec__).__module__)\n",
    )

    done = job.finish(program, path=str(job.folder / "site"), RANK="0")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0\n1 _frozen_importlib\n"


def test_two_installations_do_not_chain_in_a_circle(job: Job, fake_torch: str) -> None:
    """Each runs once, and the user's own sitecustomize behind them runs once."""
    job.write("site/sitecustomize.py", "print('ran')\n")
    other = job.folder / "other" / "ddetect_probe"
    shutil.copytree(BOOTSTRAP.parent, other)
    path = os.pathsep.join([str(other / "bootstrap"), str(BOOTSTRAP), fake_torch])

    done = job.finish(job.write("train.py", "import torch"), path=path, RANK="0")

    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert len(job.pages()) == 1


def test_python_2_stays_silent_and_runs_the_users_own(job: Job) -> None:
    """Tools of a job may still be Python 2."""
    found = sorted(Path("~/.pyenv/versions").expanduser().glob("2.7.*/bin/python"))
    if not found:
        pytest.skip("NOT TESTED, Python 2: the machine has none")
    job.write("site/sitecustomize.py", "import sys\nsys.stdout.write('ran\\n')\n")

    done = job.finish(
        job.write("tool.py", ""),
        python=str(found[0]),
        path=str(job.folder / "site"),
        PYTHONDONTWRITEBYTECODE="1",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


@pytest.mark.parametrize("python", interpreters(), ids=lambda p: Path(p).parts[-3])
def test_python_start_loads_nothing_heavy(job: Job, python: str) -> None:
    """Every interpreter of the job pays for what we import; -S leaves out what its own site adds."""
    load = (
        f"import sys; sys.path.insert(0, {str(BOOTSTRAP)!r}); import sitecustomize\n"
        "print({'typing', 'importlib.abc', 're'} & set(sys.modules), 'ddetect_probe.on_import' in sys.modules)"
    )

    done = subprocess.run(
        [python, "-I", "-S", "-c", load], env=job.environment(), capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("set() True\n", "")


def test_run_directory_that_is_gone_costs_the_job_nothing(job: Job, fake_torch: str) -> None:
    """No room for a page, no page; the job does not hear of it."""
    shutil.rmtree(job.run)

    done = job.finish(job.write("train.py", LOOK), path=fake_torch, RANK="0")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -u -m torch.distributed.run --nproc-per-node 2 train.py", True),
        ("python -W ignore /opt/bin/torchrun train.py", True),
        ("python -m deepspeed.launcher.launch train.py", True),
        ("python train.py torchrun", False),
        ("python -m my.package -m torch.distributed.run", False),
        ("python -c pass torchrun", False),
        ("python", False),
    ],
)
def test_launcher_is_known_by_what_python_was_told_to_run(command: str, expected: bool) -> None:
    """Only the program itself counts, not its arguments."""
    assert start.is_launcher(command.split()) is expected
