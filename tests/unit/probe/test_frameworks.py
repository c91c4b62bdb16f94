"""A framework that nobody has heard of, hooked from outside the package."""

from __future__ import annotations

from ddetect_probe import page

from tests.unit.probe.conftest import Job

LIBRARY = """
NAMES = {str(n): n for n in range(20)}

def exchange(done):
    return done()
"""
HOOKS = """
import os
from ddetect_probe import lane, page, state
from ddetect_probe.hooks import Identity
from ddetect_probe.splice import splice

ranks = []

def identity():
    return Identity(int(os.environ.get("MADE_UP_TASK", "-1")), 8)

def install():
    import made_up
    splice(made_up.exchange, lambda: lane.enter_phase(page.COLLECTIVE), lane.leave_phase)

def on_rank():
    ranks.append(state.slots[page.S_RANK])
"""
PROGRAM = """
import sys
import ddetect_probe_autoload
from ddetect_probe.hooks import Framework

ddetect_probe_autoload.await_those((Framework("made_up", "made_up", "made_up_hooks"),))
FIRST
import made_up
import made_up_hooks
from ddetect_probe import state

def done():
    print(made_up_hooks.ranks, flush=True)
    sys.stdin.readline()

made_up.exchange(done)
"""


def test_framework_from_outside_is_hooked_when_it_is_handed_over(job: Job) -> None:
    """Its own launcher's words make the rank, its hook's phase is in the page, and its name."""
    job.write("site/made_up.py", LIBRARY)
    job.write("site/made_up_hooks.py", HOOKS)
    program = job.write("train.py", PROGRAM.replace("FIRST", ""))
    process = job.start(program, path=str(job.folder / "site"), MADE_UP_TASK="5")
    assert process.stdout is not None

    assert process.stdout.readline() == "[5]\n"
    (seen,) = job.pages()
    header = seen.header()
    assert (header[page.S_ROLE], header[page.S_RANK], header[page.S_WORLD]) == (page.ROLE_RANK, 5, 8)
    assert (seen.lanes()[0].phase, seen.frameworks()) == (page.COLLECTIVE, ["made_up"])
    assert seen.hooks_off() == []
    assert process.communicate("\n", timeout=60)[1] == ""


def test_process_with_two_frameworks_has_the_hooks_of_both_in_one_page(job: Job, fake_torch: str) -> None:
    """Whoever was imported first made the page; the second's launcher says who the process is."""
    job.write("site/made_up.py", LIBRARY)
    job.write("site/made_up_hooks.py", HOOKS)
    program = job.write("train.py", PROGRAM.replace("FIRST", "import torch"))
    process = job.start(program, path=fake_torch, MADE_UP_TASK="5")
    assert process.stdout is not None

    assert process.stdout.readline() == "[5]\n"
    (seen,) = job.pages()
    assert (seen.header()[page.S_ROLE], seen.header()[page.S_RANK]) == (page.ROLE_RANK, 5)
    assert (seen.lanes()[0].phase, seen.frameworks()) == (page.COLLECTIVE, ["torch", "made_up"])
    process.communicate("\n", timeout=60)


def test_framework_that_is_not_imported_costs_no_import(job: Job) -> None:
    """Nothing of the probe but the registry and the import hook is there before a framework is."""
    program = job.write(
        "tool.py",
        "import sys\nprint(sorted(name for name in sys.modules if name.startswith('ddetect_probe')))\n",
    )

    done = job.finish(program, RANK="0")

    assert done.stdout == (
        "['ddetect_probe', 'ddetect_probe.hooks', 'ddetect_probe.on_import', 'ddetect_probe_autoload']\n"
    )


def test_hooks_that_cannot_be_installed_are_said_in_the_page(job: Job) -> None:
    """The job goes on; the page says what is not seen."""
    job.write("site/made_up.py", LIBRARY)
    job.write("site/made_up_hooks.py", HOOKS.replace("import made_up\n", "import no_such_module\n"))
    program = job.write("train.py", PROGRAM.replace("FIRST", ""))

    done = job.finish(program, path=str(job.folder / "site"), MADE_UP_TASK="5")

    assert (done.returncode, done.stderr) == (0, "")
    (seen,) = job.pages()
    assert seen.hooks_off() == ["made_up"]
