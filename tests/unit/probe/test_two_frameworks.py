"""Processes that import TensorFlow, torch, or both, and use one: made-up packages with as much of each as is hooked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ddetect_probe import page

from tests.unit.probe.conftest import Job

PACKAGE = """
NAMES = {str(n): n for n in range(20)}
globals().update({"name_" + key: value for key, value in NAMES.items()})
"""
CONTEXT = """
def executing_eagerly():
    return True
"""
FUNCTION = """
class Function:
    def __init__(self, body):
        self._body = body

    def __call__(self, *args):
        return self._body(*args)
"""
PROGRAM = """
import sys
IMPORTS
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

def body(x):
    print("inside", flush=True)
    sys.stdin.readline()
    return Function(len)(x)

USE
print("done", flush=True)
sys.stdin.readline()
"""
MADE = "tensorflow.python.eager.polymorphic_function."


@pytest.fixture
def site(job: Job, fake_torch: str) -> str:
    """A folder with both."""
    for name, text in {
        "tensorflow": PACKAGE + f"import {MADE}polymorphic_function, {MADE}eager_function_run\n",
        "tensorflow/python": "",
        "tensorflow/python/eager": "",
        "tensorflow/python/eager/polymorphic_function": "",
    }.items():
        job.write(f"site/{name}/__init__.py", text)
    folder = "site/tensorflow/python/eager/"
    job.write(folder + "context.py", CONTEXT)
    job.write(folder + "polymorphic_function/eager_function_run.py", "RUN_FUNCTIONS_EAGERLY = False\n")
    job.write(
        folder + "polymorphic_function/polymorphic_function.py",
        "from tensorflow.python.eager import context\n" + FUNCTION,
    )
    return fake_torch


def identity(seen: page.Page) -> tuple[int, int, int, list[str]]:
    header = seen.header()
    return header[page.S_ROLE], header[page.S_RANK], header[page.S_WORLD], seen.frameworks()


def run(job: Job, site: str, imports: str, use: str, **more: str) -> tuple[Any, Any]:
    """The page inside the first function (or at the end, if none is called), and after it."""
    program = job.write("train.py", PROGRAM.replace("IMPORTS", imports).replace("USE", use))
    process = job.start(program, path=site, **more)
    assert process.stdout is not None
    assert process.stdin is not None
    said = process.stdout.readline()
    (seen,) = job.pages()
    inside = identity(seen), seen.lanes()[0].phase
    if said == "inside\n":
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.readline()
    assert said == "done\n", process.communicate()[1]
    after = identity(seen), seen.lanes()[0].phase, seen.lanes()[0].steps
    if "torch" not in seen.frameworks():  # the made-up one has nothing to hook
        assert seen.hooks_off() == []
    assert process.communicate("\n", timeout=60)[1] == ""
    return inside, after


def test_process_that_only_imports_tensorflow_is_no_rank(job: Job, site: str) -> None:
    """Tensorboard's writer does that in many a program."""
    _, after = run(job, site, "import tensorflow", "")

    assert after == ((page.ROLE_OTHER, -1, -1, ["tensorflow"]), page.STARTING, 0)


def test_first_call_makes_it_rank_0_of_1_while_it_lasts(job: Job, site: str) -> None:
    """The first step is the longest; it is watched from its beginning, and counts one, whatever it calls."""
    inside, after = run(job, site, "import tensorflow", "assert Function(body)('ab') == 2")

    assert inside == ((page.ROLE_RANK, 0, 1, ["tensorflow"]), page.STEP)
    assert after == ((page.ROLE_RANK, 0, 1, ["tensorflow"]), page.OTHER, 1)


def test_call_that_raises_reads_as_without_us(job: Job, site: str) -> None:
    """The exception is the job's, and the call no step."""
    use = "try:\n    Function(lambda: 1 // 0)()\nexcept ZeroDivisionError:\n    pass"

    _, after = run(job, site, "import tensorflow", use)

    assert after[1:] == (page.OTHER, 0)


@pytest.mark.parametrize("imports", ["import torch, tensorflow", "import tensorflow, torch"])
def test_torch_rank_that_imports_tensorflow_stays_torchs(job: Job, site: str, imports: str) -> None:
    """Whoever is imported first, torchrun says who this is."""
    _, after = run(job, site, imports, "", RANK="3", WORLD_SIZE="4")

    role, rank, world, frameworks = after[0]
    assert (role, rank, world, sorted(frameworks)) == (page.ROLE_RANK, 3, 4, ["tensorflow", "torch"])


def test_torch_rank_that_calls_a_tf_function_keeps_its_rank(job: Job, site: str) -> None:
    """It prepares its data with it."""
    _, after = run(job, site, "import torch, tensorflow", "Function(len)('a')", RANK="3", WORLD_SIZE="4")

    assert after[0] == (page.ROLE_RANK, 3, 4, ["torch", "tensorflow"])


def test_task_of_a_cluster_is_a_rank_from_the_import_on(job: Job, site: str) -> None:
    """TF_CONFIG says it before any strategy does."""
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})

    _, after = run(job, site, "import tensorflow", "", TF_CONFIG=config)

    assert after[0] == (page.ROLE_RANK, 2, 3, ["tensorflow"])


def test_part_that_is_not_as_expected_is_said_and_the_rest_works(job: Job, site: str) -> None:
    """A TensorFlow that nobody has seen yet: what cannot be hooked is named in the page."""
    job.write(
        "site/tensorflow/python/eager/polymorphic_function/tracing_compilation.py",
        "def renamed():\n    pass\n",
    )
    program = job.write(
        "train.py",
        f"import tensorflow, {MADE}tracing_compilation\n{MADE}polymorphic_function.Function(len)('a')\n",
    )

    done = job.finish(program, path=site)

    assert (done.returncode, done.stderr) == (0, "")
    (seen,) = job.pages()
    assert (seen.hooks_off(), seen.lanes()[0].steps) == (["tracing_compilation"], 1)
