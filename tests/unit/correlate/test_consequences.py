"""Deaths that follow from somebody else's, told from everyday faults; and what is said when the first was not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate import confidence
from ddetect.correlate.judge import judge
from ddetect.correlate.rules.consequence import is_consequence
from ddetect.frameworks.torch import TORCH
from ddetect.model import (
    UNKNOWN,
    UNSEEN_ERROR,
    Cause,
    Departure,
    Frame,
    Gone,
    Ops,
    Progress,
    Proof,
    Role,
    Snapshot,
    Status,
    Unread,
)
from tests.unit.correlate.scenes import IDLE_WORKER, SITE, build, died, scene

RAISED, VANISHED, EXITED = Departure.RAISED, Departure.VANISHED, Departure.EXITED
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [192.168.1.64]:4711"
TIMED_OUT = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"
USERS = Frame("read_shard", "/job/data.py", 12)

EVERYDAY = [
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "RuntimeError: cannot restore checkpoint: the file was closed",
    "RuntimeError: feature store: connection timeout",
    "RuntimeError: object store request failed: connection reset by peer (os error 104)",
    "ReadTimeout: Timed out waiting for the object",
    "ProtocolError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
    "OperationalError: SSL connection was closed by peer",
    "WebSocketException: socket closed",
]
OF_A_PEER = [
    CLOSED,
    TIMED_OUT,
    "RuntimeError: [/src/third_party/gloo/gloo/transport/tcp/pair.cc:553]\nConnection closed by peer [10.0.0.1]:62885.",
    "RuntimeError: [/job/pair.cc:537] Read error [127.0.0.1]:53952: Connection reset by peer. This is typically",
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] writev [10.0.0.2]:1: Broken pipe",
    "RuntimeError: Application timeout caused pair closure",
    "RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error",
    "RuntimeError: Connection closed by peer",
    "RuntimeError: Connection reset by peer",
    "RuntimeError: Broken pipe",
    "RuntimeError: Socket Timeout",
    "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown?",
    "DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500).",
    "DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
    "DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
    "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: x",
    "DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
    "store by key '0', but store->get('0') got error: Connection reset by peer",
    "DistBackendError: NCCL communicator was aborted on rank 1.",
    "DistBackendError: NCCL error, ncclRemoteError: A call failed possibly due to a network error or a remote "
    "process exiting prematurely.",
    "RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 2000 ms",
    "KeyboardInterrupt",
]


@pytest.mark.parametrize("text", EVERYDAY)
def test_everyday_connection_error_is_no_consequence_of_a_peer(text):
    """S3, a database or a logger may hang up at any time: that is a first fault of the rank that raised it."""
    gone = died(2, RAISED, exception=text, where=USERS)

    verdict = judge(scene(all_reduce=[0, 1], loader=[3], gone=[gone]))

    assert not is_consequence(gone, TORCH)
    assert (verdict.status, verdict.cause) == (Status.STOPPED, Cause.PYTHON_EXCEPTION)
    assert (verdict.culprit_ranks, verdict.confidence) == ((2,), confidence.DEAD)


@pytest.mark.parametrize("text", OF_A_PEER)
def test_error_with_a_mark_of_torch_is_a_consequence(text):
    """Words of torch, gloo and NCCL."""
    assert is_consequence(died(2, RAISED, exception=text, where=USERS), TORCH)


def test_error_at_a_line_of_torch_distributed_is_a_consequence():
    """No line of the user's was on the stack; writing a checkpoint is not talking to a peer."""
    text = "ConnectionResetError: [Errno 104] Connection reset by peer"

    def at(file: str) -> Gone:
        return died(0, RAISED, exception=text, where=Frame("f", f"{SITE}/torch/distributed/{file}", 9))

    assert is_consequence(at("rendezvous.py"), TORCH)
    assert not is_consequence(at("checkpoint/filesystem.py"), TORCH)


def test_everyday_reset_excuses_no_rank_that_the_launcher_ended_later():
    """Only torch's own words tell that a peer has died."""
    gone = [
        died(0, RAISED, age_s=1.8, exception=EVERYDAY[0], where=USERS),
        replace(died(1, VANISHED, age_s=1.7), signal=15),
    ]

    assert judge(scene(world=2, gone=gone)).culprit_ranks == (0,)


@pytest.mark.parametrize("doing", ["asleep", "pdb", "stopped", "leaving"])
def test_living_rank_named_beside_a_death_gets_half_the_confidence_of_a_death(doing):
    """Who died told that another was late, not which."""
    verdict = judge(scene(all_reduce=[0], gone=[died(1, RAISED, exception=TIMED_OUT)], **{doing: [2]}))

    assert verdict.culprit_ranks == (2,)
    assert verdict.confidence <= confidence.DEAD / 2


def silent(world: int, nodes: dict[str, list[int]], gone: list[Gone], *, for_s: float = 9.0) -> Snapshot:
    """Nodes fell silent: nothing is known of their ranks but that they were there."""
    builder = build(world)
    for rank in range(world):
        builder.does(rank, "asleep")
    builder.gone = gone
    unread = tuple(Unread(tuple(ranks), f"no word from {node}", node, for_s) for node, ranks in nodes.items())
    snapshot = builder.snapshot(samples=(), unread=unread, progress=Progress(), ops=Ops())
    phase = np.full(len(snapshot.roster), UNKNOWN)
    return replace(snapshot, beats=replace(snapshot.beats, phase=phase))


def test_peers_of_a_host_that_was_shut_down_are_not_blamed():
    """gloo-peer-host-shutdown: rank 0 lives long enough to say that its connection was closed."""
    verdict = judge(silent(2, {"node-1": [1]}, [died(0, RAISED, exception=CLOSED)]))

    assert (verdict.status, verdict.cause, verdict.proof) == (Status.STOPPED, None, Proof.TIME)
    assert verdict.culprit_ranks == (1,)
    assert "node-1 (rank 1) fell silent; rank 0 died of a closed connection" in verdict.summary
    assert verdict.confidence <= confidence.DEAD / 2


def test_silent_node_that_others_waited_for_in_vain_is_named():
    """gloo-cable-pulled: nothing was closed, the time was up."""
    verdict = judge(silent(2, {"node-1": [1]}, [died(0, RAISED, exception=TIMED_OUT)], for_s=80))

    assert verdict.culprit_ranks == (1,)
    assert "node-1 (rank 1) fell silent; rank 0 died waiting for an answer" in verdict.summary


def test_whole_silent_node_is_named_whoever_raised_first():
    """m4-node-unresponsive: the order of the victims' errors says nothing."""
    gone = [died(r, RAISED, age_s=5 + r * 0.01, exception=CLOSED) for r in range(4)]

    verdict = judge(silent(8, {"node-1": [4, 5, 6, 7]}, gone))

    assert verdict.culprit_ranks == (4, 5, 6, 7)
    assert "node-1 (ranks 4-7) fell silent" in verdict.summary


def test_of_two_silent_nodes_neither_is_named():
    """One of them, or the network between: nobody is guessed, least of all a victim."""
    snapshot = silent(3, {"node-1": [1], "node-2": [2]}, [died(0, RAISED, exception=CLOSED)])

    verdict = judge(snapshot)

    assert (verdict.status, verdict.culprits) == (Status.STOPPED, ())
    assert "node-1 (rank 1) and node-2 (rank 2) fell silent" in verdict.summary


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: [pair.cc:534] Connection closed by peer [node-2]:4711",
        "RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 2000 ms",
    ],
    ids=["node", "rank"],
)
def test_of_two_silent_nodes_the_one_that_the_error_names_is_named(said):
    """By its host or by its rank."""
    snapshot = silent(3, {"node-1": [1], "node-2": [2]}, [died(0, RAISED, exception=said)])

    assert judge(snapshot).culprit_ranks == (2,)


def test_name_of_a_node_is_not_found_inside_another():
    """node-1 is not node-11, 10.0.0.1 is not 10.0.0.12."""
    said = "RuntimeError: [pair.cc:534] Connection closed by peer [node-11]:4711"
    snapshot = silent(3, {"node-1": [1], "node-2": [2]}, [died(0, RAISED, exception=said)])

    assert judge(snapshot).culprits == ()


def test_silent_node_comes_before_a_living_rank_when_connections_were_closed():
    """Who sleeps closes nothing."""
    builder = build(3)
    builder.does(1, "asleep")
    builder.gone = [died(0, RAISED, exception=CLOSED)]
    builder.unread = [Unread((2,), "no word from node-1", "node-1", 9.0)]

    assert judge(builder.snapshot()).culprit_ranks == (2,)


def test_node_that_fell_silent_only_after_the_deaths_is_not_blamed():
    """Its agent was heard while the others were dead already: it left with the job."""
    gone = [died(0, RAISED, age_s=60.0, exception=CLOSED)]

    verdict = judge(silent(2, {"node-1": [1]}, gone, for_s=9))

    assert 1 not in verdict.culprit_ranks


def test_silent_ranks_that_are_known_to_have_died_are_not_the_silent_ones():
    """The agent told their deaths before it left."""
    gone = [died(0, RAISED, exception=CLOSED), died(1, RAISED, exception=CLOSED)]

    assert "fell silent" not in judge(silent(2, {"node-1": [1]}, gone)).summary


def test_consequences_of_one_moment_are_not_told_apart_by_rank():
    """Nobody is silent, the origin was not seen: both are shown, and no alarm is due before time has passed."""
    verdict = judge(scene(gone=[died(0, RAISED, exception=CLOSED), died(1, RAISED, exception=CLOSED)]))

    assert (verdict.culprit_ranks, verdict.proof) == ((), Proof.TIME)
    assert verdict.summary.startswith("ranks 0-1 raised")
    assert verdict.confidence < 0.5


# ---------------------------------------------------------------- loader workers


def lost_worker(rank: int, index: int, *, signal: int, pid: int = 0, age_s: float = 5.0) -> Gone:
    return Gone(
        rank, Role.LOADER_WORKER, index, pid or 4001 + 10 * rank + index, VANISHED, age_s, signal=signal
    )


@pytest.mark.parametrize(("index", "signal"), [(3, 15), (2, 15), (3, 0), (3, 9)])
def test_worker_of_another_loader_is_no_fault(index, signal):
    """torch ends a slow worker of the loader that was left with SIGTERM; the new loader has two workers, both alive."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "loader")
    builder.gone = [lost_worker(1, index, signal=signal, pid=4999, age_s=8.1)]

    verdict = judge(builder.snapshot())

    assert (verdict.status, verdict.cause, verdict.proof) == (Status.HANG, Cause.DATA_LOADING, Proof.TIME)


def test_workers_killed_together_leave_no_gap():
    """Of four, two and three were killed by the OOM killer: both belong to the loader that is waited for."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "loader").workers = (IDLE_WORKER, IDLE_WORKER)
    builder.gone = [lost_worker(1, index, signal=9) for index in (2, 3)]

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.KILLED_BY_SIGNAL, (1,))
    assert [c.process.index for c in verdict.culprits if c.process] == [2, 3]


def test_workers_of_two_ranks_killed_in_one_moment_are_both_named():
    """bigscience-13b: SIGBUS on two ranks; neither is preferred."""
    builder = build(4)
    for rank in (0, 3):
        builder.enters(rank, "all_reduce")
    for rank in (1, 2):
        builder.does(rank, "loader").workers = (IDLE_WORKER,)
    builder.gone = [lost_worker(2, 1, signal=7, age_s=5.0), lost_worker(1, 1, signal=7, age_s=4.6)]

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.KILLED_BY_SIGNAL, (1, 2))
    assert "loader worker 1 (pid 4012) of rank 1" in verdict.summary
    assert "loader worker 1 (pid 4022) of rank 2" in verdict.summary
    assert sum("SIGBUS" in line for line in verdict.evidence) == 2


# ---------------------------------------------------------------- equal first faults of ranks


def test_ranks_that_raised_the_same_in_one_moment_are_all_named():
    """A bad config stops everybody; microseconds make no culprit."""
    gone = [
        died(r, RAISED, age_s=5 - r * 0.01, exception=f"FileNotFoundError: no shard {r} of tokens.bin")
        for r in range(3)
    ]

    verdict = judge(scene(gone=gone))

    assert verdict.culprit_ranks == (0, 1, 2)
    assert verdict.confidence == confidence.DEAD


def test_other_error_a_moment_later_is_not_an_equal_fault():
    """The oldest counts."""
    gone = [
        died(2, RAISED, age_s=5.0, exception="ValueError: bad shard"),
        died(0, RAISED, age_s=4.9, exception="RuntimeError: my peer failed"),
    ]

    assert judge(scene(world=3, gone=gone)).culprit_ranks == (2,)


@pytest.mark.parametrize("text", [f"{UNSEEN_ERROR} (exit code 1)", "SystemExit: 1"])
def test_exit_codes_alone_make_no_equal_faults(text):
    """Victims leave with the same code as the culprit: the older one counts."""
    gone = [died(r, RAISED, age_s=5 - r * 0.01, exception=text) for r in (0, 1)]

    assert judge(scene(world=2, gone=gone)).culprit_ranks == (0,)


def test_ranks_killed_by_the_same_signal_in_one_moment_are_all_named():
    """Two crashes at once; the launcher does not send SIGBUS."""
    gone = [replace(died(r, VANISHED, age_s=5 - r * 0.01), signal=7) for r in (0, 1)]

    verdict = judge(scene(world=3, all_reduce=[2], gone=gone))

    assert verdict.culprit_ranks == (0, 1)
    assert "SIGBUS" in verdict.summary
