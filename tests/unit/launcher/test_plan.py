"""Who serves, where, and under which name: pure."""

from __future__ import annotations

import pytest
from ddetect_launcher.plan import NAME_LENGTH, Plan, make_plan, safe_name
from ddetect_launcher.rendezvous import Rendezvous, parse_address, parse_rendezvous
from ddetect_launcher.slurm import first_host

TOKEN = {"DDETECT_TOKEN": "secret"}


def plan(
    line: str, environ: dict[str, str] | None = None, coordinator: str | None = None, owns: str = ""
) -> Plan:
    """A plan on a host that owns one name, which stands for 10.0.0.1 (or for itself when it is an address)."""

    def owned(host: str) -> str | None:
        if host != owns:
            return None
        return host if host[0].isdigit() else "10.0.0.1"

    return make_plan(
        line.split(), environ or {}, coordinator=coordinator, fresh_name="fresh-1", owned_address=owned
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python train.py", Rendezvous()),
        ("torchrun --nproc-per-node 8 train.py", Rendezvous()),
        ("torchrun --nnodes=2 --master-addr=a --master-port=123 train.py", Rendezvous(2, "a", 123)),
        (
            "torchrun --nnodes 2 --master_addr a --master_port 123 --node_rank 1 t.py",
            Rendezvous(2, "a", 123, 1),
        ),
        ("torchrun --nnodes 2 --master-addr a train.py", Rendezvous(2, "a", 29500)),
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint a:77 train.py", Rendezvous(2, "a", 77)),
        ("torchrun --nnodes 1:4 --rdzv_backend=c10d --rdzv_endpoint=a train.py", Rendezvous(4, "a", 29400)),
        ("torchrun --nnodes 2 --rdzv-endpoint [::1]:77 train.py", Rendezvous(2, "::1", 77)),
        ("torchrun --standalone --nnodes 2 train.py", Rendezvous()),
        ("torchrun --nnodes 2 -m pkg --master-addr a", Rendezvous(2)),
        ("python -m torch.distributed.run --nnodes=2 --master-addr=a t.py", Rendezvous(2, "a", 29500)),
        ("env A=1 numactl -N 0 /opt/bin/torchrun --nnodes=2 --master-addr=a t.py", Rendezvous(2, "a", 29500)),
        ("torchrun --nproc-per-node 2 train.py --nnodes 4 --master-addr x", Rendezvous()),
        ("python train.py torchrun --nnodes 4", Rendezvous()),
        (
            "accelerate launch --multi_gpu --num_machines 2 --main_process_ip a --machine_rank 1 t.py",
            Rendezvous(2, "a", 29500, 1),
        ),
        (
            "accelerate launch --num_machines=2 --main_process_ip=a --main_process_port=5 t.py",
            Rendezvous(2, "a", 5),
        ),
    ],
)
def test_command_line_tells_where_nodes_meet(line: str, expected: Rendezvous) -> None:
    """Both spellings and both forms are read, and nothing behind the script's name."""
    assert parse_rendezvous(line.split(), {}) == expected


def test_kubeflow_environment_stands_for_torchrun_options() -> None:
    """torchrun reads PET_* for options not given; so do we."""
    environ = {"PET_NNODES": "2", "PET_MASTER_ADDR": "w-0", "PET_MASTER_PORT": "23456", "PET_NODE_RANK": "0"}

    assert parse_rendezvous(["torchrun", "train.py"], environ) == Rendezvous(2, "w-0", 23456, 0)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:x", "host:0", "host:70000", ":80", "[::1", "[::1]80"]
)
def test_address_without_host_or_port_is_none(text: str) -> None:
    """What is not HOST:PORT is refused, not guessed."""
    assert parse_address(text) is None


def test_single_node_serves_in_its_own_run_directory() -> None:
    """One launcher, one job: a fresh name, a unix socket, nothing shared."""
    assert plan("python train.py") == Plan("fresh-1", "fresh-1", False, True, None, None)


def test_wished_job_name_still_gets_its_own_run_directory() -> None:
    """Two jobs under one wished name do not meet."""
    made = plan("python train.py", {"DDETECT_JOB": "bert"})

    assert (made.job, made.run_name) == ("bert", "bert-fresh-1")


def test_job_name_of_an_outer_launch_is_not_inherited() -> None:
    """A launch inside a watched job is another job."""
    assert plan("python t.py", {"DDETECT_JOB": "outer", "DDETECT_RUN_DIR": "/x"}).job == "fresh-1"


def test_node_that_owns_the_address_serves() -> None:
    """The coordinator listens beside the rendezvous port, on the address other nodes know."""
    made = plan("torchrun --nnodes 2 --master-addr node-0 t.py", TOKEN, owns="node-0")

    assert (made.serves, made.listen, made.dial) == (True, "10.0.0.1:29677", "node-0:29677")
    assert made.shared


def test_node_that_does_not_own_the_address_dials() -> None:
    """The other nodes only dial, under the same job name."""
    line = "torchrun --nnodes 2 --master-addr node-0 t.py"
    other = plan(line, TOKEN)

    assert (other.serves, other.listen, other.dial) == (False, None, "node-0:29677")
    assert other.job == plan(line, TOKEN, owns="node-0").job


def test_first_node_serves_behind_an_address_it_cannot_bind() -> None:
    """A Kubernetes service name resolves to no address of the pod; node rank 0 serves on all of its own."""
    made = plan("torchrun --nnodes 2 --node-rank 0 --master-addr service t.py", TOKEN)

    assert (made.serves, made.listen, made.dial) == (True, "0.0.0.0:29677", "service:29677")


def test_given_coordinator_elsewhere_is_never_served_here() -> None:
    """--coordinator may name a process that somebody else runs."""
    made = plan(
        "torchrun --nnodes 2 --node-rank 0 --master-addr n0 t.py", TOKEN, coordinator="far:7", owns="n0"
    )

    assert (made.serves, made.dial) == (False, "far:7")


def test_own_name_that_means_loopback_is_served_everywhere() -> None:
    """Debian's /etc/hosts maps a host's own name to 127.0.1.1, where no other node would reach it."""
    made = make_plan(
        ["torchrun", "--nnodes", "2", "--master-addr", "me", "t.py"],
        TOKEN,
        coordinator=None,
        fresh_name="f",
        owned_address=lambda host: "127.0.1.1",
    )

    assert made.listen == "0.0.0.0:29677"


def test_several_nodes_without_token_watch_alone_and_say_so() -> None:
    """Closed by default: the sentence names what to set, and this node is still watched."""
    made = plan("torchrun --nnodes 2 --master-addr node-0 t.py", owns="node-0")

    assert (made.serves, made.listen, made.dial, made.shared) == (True, None, None, False)
    assert "DDETECT_TOKEN" in made.notes[0]


def test_loopback_coordinator_needs_no_token() -> None:
    """Nobody else can reach it."""
    made = plan("python t.py", coordinator="127.0.0.1:5000", owns="127.0.0.1")

    assert (made.serves, made.listen, made.notes) == (True, "127.0.0.1:5000", ())


def test_etcd_endpoint_asks_for_a_coordinator() -> None:
    """An etcd server is no node of the job: guessing would leave everybody dialling nobody."""
    made = plan("torchrun --nnodes 2 --rdzv-backend etcd-v2 --rdzv-endpoint e:2379 t.py", TOKEN)

    assert "--coordinator" in made.notes[0]
    assert made.dial is None


def test_port_near_the_end_steps_down() -> None:
    """A port above 65535 does not exist."""
    assert plan("torchrun --nnodes 2 --master-addr a --master-port 65500 t.py", TOKEN).dial == "a:65323"


SLURM = {
    "SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "gpu[003-004]",
}  # fmt: skip


def test_tasks_of_a_slurm_step_share_a_run_directory() -> None:
    """All tasks compute the same name from the step."""
    made = plan("python t.py", SLURM)

    assert (made.job, made.run_name, made.shared, made.serves) == ("slurm-42.0", "slurm-42.0", True, True)


def test_lone_slurm_task_has_its_own_run_directory() -> None:
    """Two commands typed in an interactive step are two jobs."""
    assert not plan("python t.py", {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}).shared


def test_batch_script_without_srun_has_its_own_run_directory() -> None:
    """Two commands of one batch script are two jobs."""
    batch = {key: value for key, value in SLURM.items() if key != "SLURM_STEP_ID"}

    assert not plan("python t.py", batch).shared


def test_slurm_nodes_meet_at_the_first_of_them() -> None:
    """Every node computes the same address from the step, with no rendezvous on the command line."""
    environ = {**SLURM, **TOKEN, "SLURM_STEP_NUM_NODES": "2"}
    first, second = plan("python t.py", environ), plan("python t.py", {**environ, "SLURM_NODEID": "1"})

    assert first.dial == second.dial
    assert first.dial is not None
    assert first.dial.startswith("gpu003:")
    assert (first.serves, second.serves) == (True, False)


@pytest.mark.parametrize(
    ("listed", "first"),
    [("a,b", "a"), ("gpu[003-005,9],login", "gpu003"), ("n[1,3]-ib", "n1-ib"), ("one", "one"), ("", None)],
)
def test_slurm_host_list_gives_its_first_name(listed: str, first: str | None) -> None:
    """Slurm shortens host names into brackets."""
    assert first_host(listed) == first


MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "4012376065"}


def test_ranks_of_mpirun_share_a_run_directory() -> None:
    """Each rank has a launcher; they find each other by the job's name."""
    made = plan("python t.py", MPI)

    assert (made.run_name, made.shared, made.serves) == ("mpi-4012376065", True, True)


def test_mpirun_over_nodes_meets_where_mpirun_runs() -> None:
    """Open MPI 4 hands its own address down."""
    uri = {"OMPI_MCA_orte_hnp_uri": "2752512.0;tcp://10.0.0.9,172.17.0.1:43215"}
    made = plan("python t.py", {**MPI, **TOKEN, **uri, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})

    assert made.dial is not None
    assert made.dial.startswith("10.0.0.9:")


def test_long_names_stay_short_and_different() -> None:
    """A run directory's path must leave room for a socket's name."""
    one, two = safe_name("prterun-" + "x" * 60 + "@1"), safe_name("prterun-" + "x" * 60 + "@2")

    assert one != two
    assert len(one) <= NAME_LENGTH
    assert "/" not in safe_name("a/../b")
