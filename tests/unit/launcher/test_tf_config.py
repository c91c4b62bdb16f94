"""TF_CONFIG: who takes part, who this process is, and where the cluster's launchers meet. Pure."""

from __future__ import annotations

import json

import pytest
from ddetect_launcher.plan import make_plan
from ddetect_launcher.tf_config import Cluster, parse_tf_config
from ddetect_probe.hooks.tensorflow.tasks import place

TOKEN = {"DDETECT_TOKEN": "secret"}


def config(kind: str | None = "worker", index: object = 0, **cluster: object) -> str:
    """A TF_CONFIG as a user or an operator writes it."""
    task = {} if kind is None else {"task": {"type": kind, "index": index}}
    return json.dumps({"cluster": cluster, **task})


def parsed(*args: object, **cluster: object) -> Cluster:
    """The cluster of such a text."""
    made = parse_tf_config(config(*args, **cluster))  # type: ignore[arg-type]
    assert made is not None
    return made


@pytest.mark.parametrize(
    "text",
    [
        None, "", "{", "[]", "7", "null", '{"cluster": 3}', '{"cluster": []}', '{"task": {"type": "worker"}}',
        '{"cluster": {"worker": "a:1"}}', '{"cluster": {"worker": []}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_text_without_a_cluster_is_none(text: str | None) -> None:
    """It is TensorFlow that has to complain; the job runs as it would alone."""
    assert parse_tf_config(text) is None


@pytest.mark.parametrize(
    ("kind", "index", "rank", "world"),
    [
        ("chief", 0, 0, 3), ("worker", 0, 1, 3), ("worker", "1", 2, 3), ("evaluator", 0, 3, 4),
        ("worker", 2, -1, 3), ("worker", None, -1, 3), ("worker", -1, -1, 3), ("ps", 0, -1, 3), (None, 0, -1, 3),
    ],
)  # fmt: skip
def test_chief_comes_first_then_workers_then_evaluators(
    kind: str | None, index: object, rank: int, world: int
) -> None:
    """A task that is not in the cluster has no rank; an evaluator need not be."""
    made = parsed(kind, index, chief=["a:1"], worker=["b:1", "c:1"])

    assert (made.rank, made.world) == (rank, world)


def test_without_a_chief_worker_0_is_rank_0() -> None:
    """The usual case; a dict by index is a list, and TensorFlow 1's master is a chief."""
    assert parsed("worker", 1, worker=["a:1", "b:1"]).rank == 1
    assert parsed("worker", 1, worker={"1": "b:1", "0": "a:1"}).training == ("a:1", "b:1")
    assert parsed("worker", 0, master=["a:1"], worker=["b:1"]).rank == 1


def test_evaluators_are_counted_only_where_they_run() -> None:
    """Nobody waits for one, so that one which is listed and not started is missed by nobody."""
    listed: dict[str, object] = {"worker": ["a:1", "b:1"], "evaluator": ["c:1"]}

    assert [parsed(kind, 0, **listed).world for kind in ("worker", "evaluator")] == [2, 3]


def test_task_without_a_dict_is_unknown() -> None:
    """Half a TF_CONFIG still names the cluster."""
    made = parse_tf_config('{"cluster": {"worker": ["a:1", "b:1"]}, "task": 1}')

    assert made is not None
    assert (made.rank, made.own_host, made.local_world) == (-1, "", -1)


def test_host_has_as_many_ranks_as_share_its_name() -> None:
    """A task's own address says which host this is: no name needs to be asked for."""
    listed = ["a:1", "a:2", "b:1"]

    assert [parsed("worker", index, worker=listed).local_world for index in range(3)] == [2, 2, 1]
    assert parsed("worker", 0, worker=["127.0.0.1:1", "localhost:2", "[::1]:3"]).local_world == 3


def test_evaluator_counts_itself_where_its_host_is_known() -> None:
    """Listed, or on a cluster that is all on this host; elsewhere nobody knows where it runs."""
    assert parsed("evaluator", 0, worker=["a:1", "b:1"]).local_world == -1
    assert parsed("evaluator", 0, worker=["a:1", "b:1"], evaluator=["b:2"]).local_world == 2
    assert parsed("worker", 1, worker=["a:1", "b:1"], evaluator=["b:2"]).local_world == 1
    assert parsed("evaluator", 0, worker=["localhost:1", "localhost:2"]).local_world == 3


def test_tasks_of_a_cluster_have_one_name() -> None:
    """Whatever order the text is in, and whether or not the evaluator is listed; another port is another job."""
    chief = parsed("chief", 0, chief=["a:1"], worker=["b:1"])
    text = '{"task":{"index":0,"type":"worker"},"cluster":{"worker":["b:1"],"chief":["a:1"],"evaluator":["e:1"]}}'
    worker = parse_tf_config(text)

    assert worker is not None
    assert worker.name == chief.name
    assert parsed("chief", 0, chief=["a:1"], worker=["b:2"]).name != chief.name
    assert parsed("worker", 0, worker=["a:1", "b:1"]).name != chief.name


# ---------------------------------------------------------------- the plan


def plan(text: str, owns: tuple[str, ...] = (), line: str = "python t.py", **environ: str):
    """A plan on a host that owns some names."""

    def owned(host: str) -> str | None:
        return "10.0.0.1" if host in owns else None

    return make_plan(
        line.split(),
        {"TF_CONFIG": text, **environ},
        coordinator=None,
        fresh_name="fresh-1",
        owned_address=owned,
    )


def test_launchers_of_a_loopback_cluster_share_a_run_directory_and_a_socket() -> None:
    """Two shells, two TF_CONFIGs, one job: no port, no token."""
    listed = ["localhost:1111", "127.0.0.1:2222"]
    first, second = (plan(config("worker", index, worker=listed)) for index in (0, 1))

    assert first == second
    assert (first.shared, first.serves, first.listen, first.dial, first.notes) == (True, True, None, None, ())
    assert first.run_name == first.job == parsed(worker=listed).name


def test_cluster_on_one_host_under_two_of_its_names_needs_no_port() -> None:
    """One task by name, one by number: both are this host."""
    made = plan(config("worker", 1, worker=["10.0.0.1:1", "me:2"]), owns=("10.0.0.1",))

    assert (made.shared, made.serves, made.dial) == (True, True, None)


def test_nodes_meet_beside_the_port_of_the_chief() -> None:
    """The coordinator sits on the chief's host, whether or not that host can bind the name it is known by."""
    cluster = {"chief": ["a:2222"], "worker": ["a:2223", "b:2222"]}
    chief = plan(config("chief", 0, **cluster), owns=("a",), **TOKEN)
    beside = plan(config("worker", 0, **cluster), **TOKEN)  # behind a service name, say
    other = plan(config("worker", 1, **cluster), **TOKEN)

    assert {made.dial for made in (chief, beside, other)} == {"a:2399"}
    assert {made.run_name for made in (chief, beside, other)} == {chief.job}
    assert (chief.serves, chief.listen) == (True, "10.0.0.1:2399")
    assert (beside.serves, beside.listen) == (True, "0.0.0.0:2399")
    assert (other.serves, other.listen) == (False, None)


def test_address_of_the_chief_outweighs_a_left_over_master_address() -> None:
    """MASTER_ADDR is torch's; the cluster says where it meets."""
    made = plan(config("worker", 1, worker=["a:1000", "b:1000"]), MASTER_ADDR="x", MASTER_PORT="7", **TOKEN)

    assert made.dial == "a:1177"


def test_several_hosts_without_token_still_share_the_directory_of_their_host() -> None:
    """Each host watches its own tasks, and one sentence says what is missing."""
    made = plan(config("worker", 1, worker=["a:1", "b:1"]))

    assert (made.shared, made.serves, made.dial) == (True, True, None)
    assert "DDETECT_TOKEN" in made.notes[0]


def test_cluster_of_one_task_is_a_job_of_its_own() -> None:
    """Clouds set TF_CONFIG for single machines too."""
    made = plan(config("chief", 0, chief=["a:1"]))

    assert (made.job, made.shared) == ("fresh-1", False)


def test_lone_trainer_and_its_evaluator_are_one_job() -> None:
    """The evaluator is not listed, and knows who trains."""
    trainer = plan(config("chief", 0, chief=["localhost:1"], evaluator=["localhost:2"]))
    evaluator = plan(config("evaluator", 0, chief=["localhost:1"]))

    assert trainer.shared
    assert trainer.run_name == evaluator.run_name


def test_probe_and_launcher_agree_on_rank_and_world() -> None:
    """Two readers, one in the job and one beside it: what the page says is what the environment says."""
    clusters: list[dict[str, list[str]]] = [
        {"worker": ["a:1", "b:1"]},
        {"chief": ["a:1"], "worker": ["b:1", "c:1"]},
        {"chief": ["a:1"], "worker": ["b:1"], "evaluator": ["e:1", "e:2"]},
    ]
    for cluster in clusters:
        for kind in ("chief", "worker", "evaluator"):
            for index in range(len(cluster.get(kind, [])) or (kind == "evaluator")):
                theirs = place({name: len(found) for name, found in cluster.items()}, kind, index)
                ours = parsed(kind, index, **cluster)

                assert (ours.rank, ours.world) == (theirs.rank, theirs.world)


def test_torchrun_over_nodes_does_not_heed_tf_config() -> None:
    """Some clouds set it for every job."""
    line = "torchrun --nnodes 2 --master-addr node-0 t.py"
    made = plan(config("worker", 0, worker=["a:1", "b:1"], ps=["c:1"]), line=line, **TOKEN)

    assert (made.dial, made.refusal) == ("node-0:29677", "")


def test_cluster_says_more_than_the_scheduler() -> None:
    """Under srun with a TF_CONFIG each, the cluster is the job."""
    slurm = {"SLURM_JOB_ID": "4", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
    text = config("worker", 0, worker=["localhost:1", "localhost:2"])

    assert plan(text, **slurm).job == parsed(worker=["localhost:1", "localhost:2"]).name
    assert plan("{", **slurm).job == "slurm-4.0"


def test_torch_job_has_no_cluster_though_its_cloud_sets_one() -> None:
    """Two jobs on one host that inherit the same TF_CONFIG must not meet."""
    text = config("worker", 0, worker=["localhost:1", "localhost:2"], ps=["localhost:3"])
    torchs = plan(text, line="torchrun --standalone --nproc-per-node 8 train.py")
    by_rank = plan(text, RANK="0")

    for made in (torchs, by_rank):
        assert (made.job, made.shared, made.refusal) == ("fresh-1", False, "")


def test_parameter_servers_are_not_judged() -> None:
    """Workers of such a job wait for orders all day."""
    made = plan(config("worker", 0, chief=["localhost:1"], worker=["localhost:2"], ps=["localhost:3"]))

    assert "ParameterServerStrategy" in made.refusal
