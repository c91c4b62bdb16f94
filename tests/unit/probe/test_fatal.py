"""A fatal signal: the Python line is in our file, and the job is as it would be without us."""

from __future__ import annotations

import signal

import pytest

from tests.unit.probe.conftest import Job

ABORTS = "def step():\n    os.abort()\nstep()\n"


def told(job: Job) -> str:
    """What fatal signals wrote for all processes of the job."""
    return "".join(file.read_text() for file in sorted((job.run / "fault").iterdir()))


def test_abort_leaves_its_line_and_nothing_on_stderr(job: Job, fake_torch: str) -> None:
    """The signal that ends the process is the one that would have ended it."""
    done = job.finish(job.write("train.py", f"import os, torch\n{ABORTS}"), path=fake_torch, RANK="0")

    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "")
    assert "Fatal Python error: Aborted" in told(job)
    assert 'train.py", line 3 in step' in told(job)


@pytest.mark.parametrize(
    "wish",
    [
        "import faulthandler, torch\nfaulthandler.enable()",
        "import faulthandler, torch\nif not faulthandler.is_enabled(): faulthandler.enable()",
        "import faulthandler\nfrom faulthandler import enable\nimport torch\nenable()",
        "import faulthandler\nfaulthandler.enable()\nimport torch",
    ],
)
def test_job_that_enables_faulthandler_gets_its_own(job: Job, fake_torch: str, wish: str) -> None:
    """Before us or after us, if nobody has or in any case: its stack is on its stderr, and not in our file."""
    asks = "print(faulthandler.is_enabled(), faulthandler.disable(), faulthandler.is_enabled())"
    program = job.write("train.py", f"{wish}\nimport os\n{ABORTS}")
    asking = job.write("ask.py", f"{wish}\n{asks}\n")

    watched = job.finish(program, path=fake_torch, RANK="0")

    assert (watched.returncode, told(job)) == (-signal.SIGABRT, "")
    assert "in step" in watched.stderr
    assert job.finish(asking, path=fake_torch, RANK="0").stdout == "True True False\n"


def test_job_hears_of_faulthandler_what_it_would_hear_without_us(job: Job, fake_torch: str) -> None:
    """Nobody but us has enabled it: then for the job it is not."""
    program = job.write(
        "train.py", "import faulthandler, torch\nprint(faulthandler.is_enabled(), faulthandler.disable())\n"
    )

    assert job.finish(program, path=fake_torch, RANK="0").stdout == "False False\n"


def test_enabled_by_the_job_it_stays_the_jobs_in_a_forked_child(job: Job, fake_torch: str) -> None:
    """Our file for a child is no reason to take the fatal signals back."""
    program = job.write(
        "train.py",
        "import os, torch\nfrom faulthandler import enable\nenable()\n"
        "if os.fork() == 0:\n    os.abort()\nos.wait()\n",
    )

    done = job.finish(program, path=fake_torch, RANK="0")

    assert (done.returncode, told(job)) == (0, "")
    assert "Fatal Python error: Aborted" in done.stderr


def test_forked_child_writes_to_its_own_file(job: Job, fake_torch: str) -> None:
    """What ended a loader worker is not told of its rank."""
    program = job.write(
        "train.py",
        "import os, torch\nchild = os.fork()\nif not child:\n    os.abort()\nos.wait()\nprint(child)\n",
    )

    done = job.finish(program, path=fake_torch, RANK="0")

    assert done.stderr == ""
    written = {file.stem for file in (job.run / "fault").iterdir() if "Aborted" in file.read_text()}
    assert written == {done.stdout.strip()}


def test_handler_of_another_is_not_replaced(job: Job, fake_torch: str) -> None:
    """Who catches one fatal signal (a sanitizer, a crash reporter) keeps all of them."""
    program = job.write(
        "train.py",
        "import os, signal\nsignal.signal(signal.SIGSEGV, lambda *_: None)\nimport torch\n" + ABORTS,
    )

    done = job.finish(program, path=fake_torch, RANK="0")

    assert (done.returncode, told(job)) == (-signal.SIGABRT, "")


def test_descriptor_that_the_job_took_gets_no_stack(job: Job, fake_torch: str) -> None:
    """A daemon closes all descriptors, and its next file gets our number."""
    program = job.write(
        "train.py",
        "import os, time, torch\nfrom ddetect_probe import page, state\n"
        "os.closerange(3, 64)\nfiles = [open(f'log{n}', 'w') for n in range(8)]\n"
        "ticks = state.slots[page.S_TICKS]\n"
        "while state.slots[page.S_TICKS] < ticks + 3:\n    time.sleep(0.01)\nos.abort()\n",
    )

    done = job.finish(program, path=fake_torch, RANK="0")

    assert done.returncode == -signal.SIGABRT
    assert {(job.folder / f"log{n}").read_text() for n in range(8)} == {""}


def test_switched_off_it_writes_nothing(job: Job, fake_torch: str) -> None:
    """DDETECT_FAULT_SIGNAL=0 is for both."""
    done = job.finish(
        job.write("train.py", f"import os, torch\n{ABORTS}"),
        path=fake_torch,
        RANK="0",
        DDETECT_FAULT_SIGNAL="0",
    )

    assert (done.returncode, done.stderr, told(job)) == (-signal.SIGABRT, "", "")
