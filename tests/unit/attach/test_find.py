"""Ranks come from the environment that their launcher gave them; one job at a time."""

from __future__ import annotations

import contextlib
import json
import os
import uuid

import pytest

from ddetect.agent.discover import Found, is_helper
from ddetect.attach import find
from ddetect.attach.find import Candidate, JobScan, Wanted
from ddetect.errors import HostError, UsageError
from ddetect.model import UNKNOWN, Role
from tests.live.alone import family
from tests.unit.stacks.targets import running, until

WAITS = "import sys; print('ready', flush=True); sys.stdin.readline()"
NAMED = """
import ctypes, os, sys
if os.fork() == 0:
    ctypes.CDLL(None).prctl(15, b"pt_data_worker")
    ctypes.CDLL(None).prctl(1, 9)
    print("ready", flush=True)
sys.stdin.readline()
"""
NO_RANK = dict.fromkeys(
    ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MASTER_PORT", "TF_CONFIG"), ""
)


@contextlib.contextmanager
def job(name, count, code=WAITS, **more):
    """Processes that torchrun could have started."""
    with contextlib.ExitStack() as stack:
        shared = {"TORCHELASTIC_RUN_ID": name, "WORLD_SIZE": str(count), **more}
        yield [
            stack.enter_context(running(code, name, env={**NO_RANK, **shared, "RANK": str(rank)})).pid
            for rank in range(count)
        ]


def test_ranks_of_a_torchrun_job_are_found_by_their_command_line():
    """RANK and WORLD_SIZE tell who they are."""
    name = uuid.uuid4().hex
    with job(name, 3) as pids:
        found = JobScan(Wanted(match=name)).choose()

    assert [(one.rank, one.world_size, one.pid) for one in found] == list(
        zip(range(3), [3] * 3, pids, strict=True)
    )


def test_one_rank_stands_for_its_job():
    """Alone it would explain nothing."""
    with job(uuid.uuid4().hex, 3) as pids:
        found = JobScan(Wanted(pids=(pids[1],))).choose()

    assert [one.pid for one in found] == pids


@pytest.mark.parametrize(
    "told",
    [
        {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "n"},
        {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"},
    ],
    ids=["mpi", "slurm"],
)
def test_ranks_of_other_launchers_are_found(told):
    """Open MPI and Slurm say it in their own words."""
    with running(WAITS, env={**NO_RANK, **told}) as child:
        (found,) = JobScan(Wanted(pids=(child.pid,))).choose()

    assert (found.rank, found.world_size) == (2, 4)


def test_python_program_without_a_rank_is_taken_as_one():
    """Whoever names a pid means that process."""
    with running(WAITS, env=NO_RANK) as child:
        (found,) = JobScan(Wanted(pids=(child.pid,))).choose()

    assert (found.pid, found.rank, found.world_size) == (child.pid, 0, 1)


def test_two_jobs_are_not_mixed():
    """The user has to say which."""
    common = uuid.uuid4().hex
    with (
        job(common + "-a", 1) as first,
        job(common + "-b", 1) as second,
        pytest.raises(UsageError, match="there are 2 jobs here") as caught,
    ):
        JobScan(Wanted(match=common)).choose()

    assert all(str(pid) in str(caught.value) for pid in (*first, *second))
    assert "--pid" in caught.value.hint


LAUNCHER = """
import os, subprocess, sys
for rank in "01":
    env = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": sys.argv[1]}
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()", sys.argv[1]], env=env)
print("ready", flush=True)
os.wait()
"""


def ranks_found(wanted):
    found = JobScan(wanted).choose()
    return sorted((one.parent, one.rank) for one in found)


def test_jobs_that_share_a_name_are_not_mixed():
    """A copied --rdzv-id, or two pods at localhost:29500: the ranks of the launcher that was named, and no others."""
    name = uuid.uuid4().hex
    with running(LAUNCHER, name, env=NO_RANK) as first, running(LAUNCHER, name, env=NO_RANK) as second:
        until(lambda: len(family(first.pid)) == len(family(second.pid)) == 3)

        assert ranks_found(Wanted(pids=(first.pid,))) == [(first.pid, 0), (first.pid, 1)]
        assert ranks_found(Wanted(pids=(second.pid,))) == [(second.pid, 0), (second.pid, 1)]
        with pytest.raises(UsageError, match="there are 2 jobs here"):
            JobScan(Wanted(match=name)).choose()


def test_no_job_is_a_sentence():
    """Nothing to attach to: usage, exit code 2."""
    with pytest.raises(UsageError) as caught:
        JobScan(Wanted(match=uuid.uuid4().hex)).choose()

    assert caught.value.exit_code == 2


def test_pid_that_is_gone_is_a_sentence():
    """It names the pid."""
    with pytest.raises(UsageError, match="no Python process is or descends from pid 4194304"):
        JobScan(Wanted(pids=(4194304,))).choose()


def test_process_that_may_not_be_read_gives_reason_and_remedy():
    """Its environment is another user's: no rank is guessed."""
    with running(WAITS, env=NO_RANK) as child:
        scan = JobScan(Wanted(pids=(child.pid,)), read_environ=lambda _pid: {})
        with pytest.raises(HostError, match=f"pid {child.pid}"):
            scan.choose()


def test_loader_workers_are_found_by_the_name_that_torch_gives_them():
    """They belong to the rank that started them."""
    with job(uuid.uuid4().hex, 1, NAMED) as (pid,):
        scan = JobScan(Wanted(pids=(pid,)))
        scan.choose()
        until(lambda: len(scan.find(())) == 2)
        rank, worker = scan.find(())

    assert (rank.role, rank.pid) == (Role.RANK, pid)
    assert (worker.role, worker.parent, worker.rank) == (Role.LOADER_WORKER, pid, 0)


def test_we_never_attach_to_ourselves():
    """A rank's environment may have been given to ddetect too."""
    with pytest.raises(UsageError):
        JobScan(Wanted(match=f"^no such {os.getpid()}")).choose()


def told(pid, rank, *, parent=1, launcher=0, restart=0, master="", run="", job="777.0"):
    """A rank as it was found: of one Slurm step unless told otherwise."""
    return Candidate(
        Found(pid, 1, parent, rank, 2, restart), 0, job, "python train.py", master, launcher or parent, run
    )


def torchrun(first_pid, launcher, port, restart=0, ranks=(0, 1), job="777.0"):
    """The ranks of one torchrun."""
    return [
        told(
            first_pid + number,
            rank,
            parent=launcher,
            restart=restart,
            master=f"node-0:{port}",
            run="none",
            job=job,
        )
        for number, rank in enumerate(ranks)
    ]


class Host:
    """Processes by decree: `scan.choose()` and `scan.find()` see these."""

    def __init__(self, monkeypatch, *ranks):
        self.ranks = [one for group in ranks for one in group]
        monkeypatch.setattr(find, "read_stats", dict)
        monkeypatch.setattr(JobScan, "_candidates", lambda scan, stats: self.ranks)

    def pids(self, wanted):
        return [one.pid for one in JobScan(wanted).choose()]


@pytest.mark.parametrize("restart", [0, 1])
@pytest.mark.parametrize("ports", [(29500, 29501), (29500, 29500)])
def test_two_torchruns_of_one_allocation_are_two_jobs(monkeypatch, ports, restart):
    """They share the scheduler's name; a restart of one of them does not make them one."""
    host = Host(monkeypatch, torchrun(10, 1, ports[0]), torchrun(20, 2, ports[1], restart))

    assert host.pids(Wanted(pids=(10,))) == [10, 11]
    assert host.pids(Wanted(pids=(21,))) == [20, 21]
    with pytest.raises(UsageError, match="there are 2 jobs here"):
        host.pids(Wanted())


def test_two_torchruns_of_one_job_are_one(monkeypatch):
    """Two agents on one host, one master, every rank once."""
    host = Host(monkeypatch, torchrun(10, 1, 29500), torchrun(20, 2, 29500, ranks=(2, 3)))

    assert host.pids(Wanted(pids=(10,))) == [10, 11, 20, 21]


@pytest.mark.parametrize("job", ["777.0", ""], ids=["slurm", "nothing but the master"])
def test_restart_at_another_port_is_the_same_job(monkeypatch, job):
    """torchrun chooses a new port for each attempt; the launcher stays, and old ranks may not be gone yet."""
    old = torchrun(10, 1, 29500, job=job or "node-0:29500")
    new = torchrun(12, 1, 40123, restart=1, job=job or "node-0:40123")
    strangers = torchrun(20, 2, 29777, job=job or "node-0:29777")
    host = Host(monkeypatch, old, strangers)
    scan = JobScan(Wanted(pids=(10,)))
    scan.choose()

    host.ranks = [*old, *new, *strangers]
    assert [one.pid for one in scan.find(())] == [10, 11, 12, 13]
    host.ranks = [*new, *strangers]
    assert [one.pid for one in scan.find(())] == [12, 13]
    host.ranks = [*new, *torchrun(30, 3, 29500, job=job or "node-0:29500")]  # the port was free again
    assert [one.pid for one in scan.find(())] == [12, 13]


def test_ranks_that_a_scheduler_started_one_by_one_are_one_job(monkeypatch):
    """A shell per task: no two ranks have a parent in common."""
    host = Host(monkeypatch, [told(10, 0, parent=1), told(11, 1, parent=2)])

    assert host.pids(Wanted()) == [10, 11]


def test_jobs_of_several_launchers_that_share_a_master_are_told_apart_by_pid(monkeypatch):
    """Two copies of a job that plays two nodes, each in a network of its own with the same address."""
    first = [told(10, 0, parent=1, job="h:1", master="h:1"), told(11, 1, parent=2, job="h:1", master="h:1")]
    second = [told(20, 0, parent=3, job="h:1", master="h:1"), told(21, 1, parent=4, job="h:1", master="h:1")]
    host = Host(monkeypatch, first, second)

    assert host.pids(Wanted(pids=(10, 11))) == [10, 11]
    with pytest.raises(UsageError, match="there are 2 jobs here"):
        host.pids(Wanted(pids=(10, 20)))


def test_jobs_that_a_shell_started_side_by_side_are_two(monkeypatch):
    """The same parent, ranks by hand, two masters."""
    ranks = [told(10 + rank, rank, job="h:1", master="h:1") for rank in (0, 1)]
    ranks += [told(20 + rank, rank, job="h:2", master="h:2") for rank in (0, 1)]
    host = Host(monkeypatch, ranks)

    assert host.pids(Wanted(pids=(20,))) == [20, 21]


WRAPPED = """
import os, subprocess, sys
code = "import sys; sys.stdin.readline()"
for rank in "01":
    env = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1" + rank}
    env["TORCHELASTIC_RUN_ID"] = "none"
    subprocess.Popen(["sh", "-c", '"$0" "$@"; true', sys.executable, "-c", code, sys.argv[1]], env=env)
print("ready", flush=True)
os.wait()
"""


def test_launcher_is_found_above_a_shell():
    """`torchrun --no-python job.sh`: the master of two attempts differs, the launcher does not."""
    name = uuid.uuid4().hex
    with running(WRAPPED, name, env=NO_RANK) as launcher:
        until(lambda: len(family(launcher.pid)) == 5)
        found = JobScan(Wanted(match=name)).choose()

    assert [one.rank for one in found] == [0, 1]


# ---------------------------------------------------------------- TensorFlow


@contextlib.contextmanager
def cluster(name, tasks, code=WAITS, **listed):
    """Processes that were started with a TF_CONFIG each."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                running(code, name, env={**NO_RANK, "TF_CONFIG": task(kind, index, **listed)})
            ).pid
            for kind, index in tasks
        ]


def task(kind, index, **listed):
    return json.dumps({"cluster": listed, "task": {"type": kind, "index": index}})


def test_tasks_of_a_cluster_are_found_by_tf_config():
    """The chief is rank 0, then the workers, then the evaluator, which is not listed."""
    name = uuid.uuid4().hex
    listed = {"chief": [f"{name}:1"], "worker": [f"{name}:2", f"{name}:3"]}
    with cluster(name, [("worker", 1), ("chief", 0), ("evaluator", 0)], **listed) as pids:
        found = JobScan(Wanted(pids=(pids[0],))).choose()

    assert [(one.pid, one.rank, one.world_size) for one in found] == [
        (pids[1], 0, 3), (pids[0], 2, 3), (pids[2], 3, 4),
    ]  # fmt: skip


def test_two_clusters_are_two_jobs():
    """Another port is another cluster."""
    name = uuid.uuid4().hex
    with (
        cluster(name, [("worker", 0)], worker=["localhost:1", "localhost:2"]),
        cluster(name, [("worker", 0)], worker=["localhost:3", "localhost:4"]),
        pytest.raises(UsageError, match="there are 2 jobs here"),
    ):
        JobScan(Wanted(match=name)).choose()


def test_rank_of_torch_outweighs_a_task_that_a_cloud_gave_to_every_job():
    """The launcher has the task, its children have a RANK too: they are the ranks."""
    name = uuid.uuid4().hex
    env = {**NO_RANK, "TF_CONFIG": task("chief", 0, chief=["localhost:1"])}
    with running(LAUNCHER, name, env=env) as launcher:
        until(lambda: len(family(launcher.pid)) == 3)

        assert ranks_found(Wanted(pids=(launcher.pid,))) == [(launcher.pid, 0), (launcher.pid, 1)]


def test_task_outweighs_the_number_of_a_scheduler():
    """Under srun each task has both; the cluster says how its members call each other."""
    told = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"}
    text = task("worker", 1, chief=["localhost:1"], worker=["localhost:2", "localhost:3"])
    with running(WAITS, env={**NO_RANK, **told, "TF_CONFIG": text}) as child:
        (found,) = JobScan(Wanted(pids=(child.pid,))).choose()

    assert (found.rank, found.world_size) == (2, 3)


@pytest.mark.parametrize("kind", ["chief", "ps"])
def test_job_with_parameter_servers_is_not_judged(kind):
    """Neither by a task that trains nor by a server."""
    listed = {"chief": ["localhost:1"], "ps": ["localhost:2"]}
    with (
        cluster(uuid.uuid4().hex, [(kind, 0)], **listed) as pids,
        pytest.raises(UsageError, match="ParameterServerStrategy is not judged yet"),
    ):
        JobScan(Wanted(pids=tuple(pids))).choose()


def test_lone_task_that_serves_others_has_an_unknown_world_and_a_note(monkeypatch):
    """Its script set TF_CONFIG, where /proc does not show it: it is not rank 0 of 1."""
    monkeypatch.setattr(find, "serves_a_cluster", lambda pid: True)
    with running(WAITS, env=NO_RANK) as one, running(WAITS, env=NO_RANK) as other:
        alone, both = JobScan(Wanted(pids=(other.pid,))), JobScan(Wanted(pids=(other.pid, one.pid)))
        (found,), together = alone.choose(), both.choose()

    assert (found.rank, found.world_size) == (0, UNKNOWN)
    assert f"pid {other.pid} is a task" in alone.notes[0]
    assert [(item.pid, item.rank, item.world_size) for item in together] == [
        (other.pid, 0, 2),
        (one.pid, 1, 2),
    ]
    assert both.notes == ()


def test_ddetect_itself_is_no_rank_though_it_has_the_environment():
    """`TF_CONFIG=... ddetect launch python train.py`, started by the script that pip installs."""
    assert is_helper(["/v/bin/python3", "/v/bin/ddetect", "launch", "python", "train.py"])
    assert not is_helper(["python3", "train.py", "ddetect"])
