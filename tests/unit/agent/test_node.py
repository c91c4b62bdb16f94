"""The agent without gRPC, on real processes with real pages."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ddetect_probe import page as layout

from ddetect.agent.discover import EnvironmentScan, local_world_of
from ddetect.agent.node import Node
from ddetect.agent.rows import call_in
from ddetect.agent.see import see
from ddetect.host.proc import Task, read_stat, read_tasks
from ddetect.messages import EndRanks, Evidence, Hello, NodeBeat, NodeGone, NodeRoster, TakeEvidence
from ddetect.model import UNKNOWN, Departure, Frame, Gone, P2PKind, Phase, Raised, Role, Sighting, Thread
from ddetect.stacks.calls import DistCall
from ddetect.stacks.dump import Dump
from ddetect.stacks.lanes import OfLane
from ddetect.stacks.parse import SeenThread
from tests.unit.agent.processes import finish, make_run_dir, rank_like
from tests.unit.stacks.targets import running, until

pytestmark = pytest.mark.usefixtures("unhurried")


@contextmanager
def watching(run_dir: str) -> Iterator[Node]:
    node = Node(run_dir, name="node-0", job="j")
    try:
        yield node
    finally:
        node.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


def _roster(node: Node) -> NodeRoster | None:
    return next((said for said in node.tick() if isinstance(said, NodeRoster)), None)


def _beat(node: Node) -> NodeBeat:
    return next(said for said in node.tick() if isinstance(said, NodeBeat))


def _gone(node: Node) -> tuple[Gone, ...]:
    return next((said.gone for said in node.tick() if isinstance(said, NodeGone)), ())


def _evidence(node: Node, *native: int) -> Evidence:
    node.tick()
    evidence = node.answer(TakeEvidence(3, native))
    assert evidence is not None
    return evidence


def _settle(pid: int) -> None:
    """Wait until it waits for its line: it says "ready" a little earlier."""
    until(lambda: (tasks := read_tasks(pid)) and tasks[0].syscall == "read")


def _sighting(evidence: Evidence, pid: int) -> Sighting:
    row = evidence.look.sample.pid.tolist().index(pid)
    return evidence.look.sample.sightings[evidence.look.sample.sighting[row]]


def test_roster_is_said_once_and_again_when_a_rank_comes(run_dir: str) -> None:
    """Identity travels when it changes; beats refer to its version."""
    with watching(run_dir) as node, rank_like(run_dir, 1) as one:
        first = _roster(node)
        again = _roster(node)
        with rank_like(run_dir, 0) as zero:
            second = _roster(node)

    assert first is not None
    assert second is not None
    assert again is None
    assert ([1], [0, 1], [zero.pid, one.pid]) == (
        first.roster.rank.tolist(),
        second.roster.rank.tolist(),
        second.roster.pid.tolist(),
    )
    assert (first.version + 1, 4, ("node-0",)) == (second.version, second.world_size, second.roster.nodes)


def test_roster_says_how_many_ranks_the_node_should_have(
    run_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the environment the rank was started with: four ranks that meet on this host are all on this host."""
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with watching(run_dir) as node, rank_like(run_dir, 1):
        said = _roster(node)

    assert said is not None
    assert said.roster.local_world.tolist() == [4]


@pytest.mark.parametrize(
    ("environ", "local_world"),
    [
        ({"LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1"}, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "node-0"}, 2),
        ({"MASTER_ADDR": "localhost"}, 8),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_NODES": "1"}, 8),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_NODES": "2"}, UNKNOWN),
        ({"MASTER_ADDR": "node-0"}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_local_world_is_what_the_launcher_said(environ: dict[str, str], local_world: int) -> None:
    """Its own words first; a meeting on loopback means one host; else nobody knows."""
    assert local_world_of(environ, 8) == local_world


def test_beat_says_what_the_page_says(run_dir: str) -> None:
    """Steps, phase and ages come from the page; state and cpu from /proc."""
    with watching(run_dir) as node, rank_like(run_dir, 0) as child:
        beats = _beat(node).beats
        child.send_signal(signal.SIGSTOP)
        until(lambda: chr(_beat(node).beats.state[0]) == "T")

    assert (beats.step.tolist(), beats.phase.tolist(), beats.has_page.tolist()) == ([5], [Phase.DATA], [1])
    assert 0 <= beats.step_age_s[0] < 60
    assert 0 <= beats.tick_age_s[0] < 60
    assert beats.io_bytes[0] > 0


def test_rows_of_a_rank_bear_the_numbers_of_its_lanes(run_dir: str) -> None:
    """A lane that nobody uses is no row, and those behind it keep their numbers and their own counters."""
    with watching(run_dir) as node, rank_like(run_dir, 0, how="lanes 1 and 3"):
        roster = _roster(node)
        beats = _beat(node).beats

    assert roster is not None
    assert (roster.roster.rank.tolist(), roster.roster.lane.tolist()) == ([0, 0], [1, 3])
    assert (beats.step.tolist(), beats.phase.tolist()) == ([10, 30], [Phase.COLLECTIVE] * 2)


def test_thread_of_the_lane_is_marked(run_dir: str) -> None:
    """Whoever judges need not guess whether the main thread is the one that trains."""
    with watching(run_dir) as node, rank_like(run_dir, 0, how="in a thread") as rank:
        until(lambda: len(read_tasks(rank.pid)) == 2)
        seen = _sighting(_evidence(node), rank.pid)

    assert seen.main is not None
    (marked,) = [thread for thread in seen.threads if thread.lane != UNKNOWN]
    assert (marked.lane, marked.is_main, marked.stack[0].function) == (0, False, "wait_here")


def test_stopped_thread_of_the_lane_is_shown_without_its_stack() -> None:
    """Where no dumper gets through, the kernel still tells what the lane's thread sleeps in."""
    tasks = (Task(7, "python", "S", syscall="futex"), Task(9, "python", "S", syscall="flock"))

    seen = see(7, "S", tasks, Dump(unread="ptrace is forbidden"), (OfLane(2, ident=100, tid=9),))

    assert [(t.is_main, t.lane, t.syscall) for t in seen.sighting.threads] == [
        (True, UNKNOWN, "futex"),
        (False, 2, "flock"),
    ]


def test_blind_probe_is_a_row_with_its_reason(run_dir: str) -> None:
    """Hooks that switched themselves off, and groups that did not fit, are said: silence would look like health."""
    with watching(run_dir) as node, rank_like(run_dir, 2, how="blind"):
        evidence = _evidence(node)

    assert {(item.ranks, item.reason) for item in evidence.look.unread} == {
        ((2,), "progress: hooks of the probe switched themselves off: all_reduce, optimizer"),
        ((2,), "collectives: it is in more process groups than its page has room for"),
    }


def test_call_of_a_training_thread_is_found_when_the_main_thread_is_in_none() -> None:
    """Without a page the arguments of the call are read from whichever thread is in one, the main one first."""
    main, other = DistCall("barrier"), DistCall("all_reduce")
    thread = Thread("t", False, False, False, ())

    assert call_in(Dump((SeenThread(7, thread), SeenThread(9, thread, other)))) == other
    assert call_in(Dump((SeenThread(7, thread, main), SeenThread(9, thread, other)))) == main
    assert call_in(Dump((SeenThread(7, thread),))) is None


def test_rank_that_raised_leaves_its_last_words(run_dir: str) -> None:
    """The page outlives the process: the exception and its line are told, with the age of the exit."""
    with watching(run_dir) as node, rank_like(run_dir, 2, how="raise") as child:
        node.tick()
        finish(child)
        (gone,) = _gone(node)

    assert (2, Role.RANK, Departure.RAISED, "ValueError: bad shard", Frame("read", "/a.py", 7)) == (
        gone.rank,
        gone.role,
        gone.how,
        gone.exception,
        gone.where,
    )
    assert 0 <= gone.age_s < 60


@pytest.mark.parametrize(("how", "expected"), [("exit", Departure.EXITED), ("", Departure.VANISHED)])
def test_exit_mark_tells_an_exit_from_a_kill(run_dir: str, how: str, expected: Departure) -> None:
    """An interpreter that ended by itself said so; one that was killed could not."""
    with watching(run_dir) as node, rank_like(run_dir, 0, how=how) as child:
        node.tick()
        if how == "exit":
            finish(child)
        else:
            child.kill()
            child.wait()
        (gone,) = _gone(node)

    assert gone.how is expected


def test_zombie_rank_counts_as_gone(run_dir: str) -> None:
    """A launcher that has not collected its child yet hides nothing from us."""
    with watching(run_dir) as node, rank_like(run_dir, 0) as child:
        node.tick()
        os.kill(child.pid, signal.SIGKILL)
        until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "Z")
        assert [gone.how for gone in _gone(node)] == [Departure.VANISHED]


def test_gone_rank_stays_in_the_roster_with_no_state(run_dir: str) -> None:
    """Rows do not move when a rank dies: its last step stays in view, its state is 0."""
    with watching(run_dir) as node, rank_like(run_dir, 0), rank_like(run_dir, 1) as dying:
        node.tick()
        dying.kill()
        dying.wait()
        node.tick()
        beats = _beat(node).beats

    assert (beats.step.tolist(), beats.state[1]) == ([5, 5], 0)


def test_everything_is_told_again_to_a_new_listener(run_dir: str) -> None:
    """After a reconnect: hello, the roster, and everyone who is gone, with the age of now."""
    with watching(run_dir) as node, rank_like(run_dir, 0), rank_like(run_dir, 1, how="exit") as ended:
        node.tick()
        finish(ended)
        node.tick()
        node.tick()
        hello, roster, gone = node.retell()

    assert Hello("node-0", "j") == hello
    assert isinstance(roster, NodeRoster)
    assert isinstance(gone, NodeGone)
    assert (roster.roster.rank.tolist(), [one.rank for one in gone.gone]) == ([0, 1], [1])


def test_loader_worker_killed_in_a_fetch_is_news_and_one_that_is_done_is_not(run_dir: str) -> None:
    """Workers come and go with every epoch; only one that died at work is told."""
    worker = int(Role.LOADER_WORKER)
    with (
        watching(run_dir) as node,
        rank_like(run_dir, 0),
        rank_like(run_dir, 0, role=worker, index=0) as idle,
        rank_like(run_dir, 0, role=worker, index=1, how="fetching") as busy,
    ):
        node.tick()
        for child in (idle, busy):
            child.kill()
            child.wait()
        gone = _gone(node)

    assert [(one.index, one.how) for one in gone] == [(1, Departure.VANISHED)]


def test_evidence_holds_every_process_with_stack_and_kernel_view(run_dir: str) -> None:
    """One row for each rank and each loader worker, with what Python and the kernel say about it."""
    worker = int(Role.LOADER_WORKER)
    with (
        watching(run_dir) as node,
        rank_like(run_dir, 0) as rank,
        rank_like(run_dir, 0, role=worker, index=1, how="fetching") as loader,
    ):
        _settle(rank.pid)
        evidence = _evidence(node)

    sample = evidence.look.sample
    assert ([rank.pid, loader.pid], [Role.RANK, Role.LOADER_WORKER], [-1, 1], [-1, 42]) == (
        sample.pid.tolist(),
        sample.role.tolist(),
        sample.index.tolist(),
        sample.fetching.tolist(),
    )
    main = _sighting(evidence, rank.pid).main
    assert main is not None
    assert (
        main.stack[0].function,
        main.state,
        main.syscall,
        main.target,
    ) == ("wait_here", "S", "read", "pipe:")
    assert (3, (), math.inf) == (evidence.request, evidence.look.unread, sample.fetch_age_s[0])


def test_exception_of_a_living_rank_is_told_with_its_stack(run_dir: str) -> None:
    """A thread that died leaves its exception in the page; it has not ended the process."""
    with watching(run_dir) as node, rank_like(run_dir, 0, how="thread died") as rank:
        seen = _sighting(_evidence(node), rank.pid)

    assert seen.raised == Raised("OSError: shard 17", Frame("read", "/a.py", 7), fatal=False)


def test_open_point_to_point_operations_come_from_the_page(run_dir: str) -> None:
    """What the recorder cannot see on gloo, the page can."""
    with watching(run_dir) as node, rank_like(run_dir, 0):
        evidence = _evidence(node)

    p2p = evidence.look.comms.p2p
    assert (
        p2p.kind.tolist(),
        p2p.peer.tolist(),
        p2p.tag.tolist(),
        p2p.waiting.tolist(),
    ) == ([P2PKind.RECV], [2], [9], [1])
    assert evidence.look.comms.groups[p2p.group[0]].members == (0, 1, 2, 3)


def test_stopped_rank_is_still_seen(run_dir: str) -> None:
    """A stopped process is read without its help, and the sighting says T."""
    with watching(run_dir) as node, rank_like(run_dir, 0) as child:
        _settle(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "T")
        sighting = _sighting(_evidence(node), child.pid)

    assert sighting.main is not None
    assert (sighting.state, sighting.main.stack[0].function) == ("T", "wait_here")


def test_child_without_a_page_is_found_below_its_rank(run_dir: str) -> None:
    """A subprocess that a rank waits for is part of the picture, Python or not."""
    code = """
import subprocess, sys
from ddetect_probe import page
writer = page.PageWriter(sys.argv[1], page.ROLE_RANK)
writer.slots[page.S_RANK] = 0
child = subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
try:
    sys.stdin.readline()
finally:
    child.kill()
    child.wait()
"""
    with watching(run_dir) as node, running(code, os.path.join(run_dir, "pages")) as rank:
        evidence = _evidence(node)
        finish(rank)

    row = evidence.look.sample.role.tolist().index(Role.CHILD)
    sighting = evidence.look.sample.sightings[evidence.look.sample.sighting[row]]
    assert sighting.main is not None
    assert (
        evidence.look.sample.rank[row],
        sighting.main.name,
        "not a Python program" in sighting.unread,
        evidence.look.unread,
    ) == (0, "sleep", True, ())


def test_rank_without_a_page_is_found_by_its_environment(run_dir: str) -> None:
    """With the probe off a rank is still a row; what is missing is said."""
    env = {"DDETECT_RUN_DIR": run_dir, "RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RESTART_COUNT": "0"}
    code = "print('ready', flush=True); input()"
    with watching(run_dir) as node, running(code, env=env) as child:
        roster = _roster(node)
        beats = _beat(node).beats
        evidence = _evidence(node)

    assert roster is not None
    assert ([3], [child.pid], 8) == (
        roster.roster.rank.tolist(),
        roster.roster.pid.tolist(),
        roster.world_size,
    )
    assert ([0], [Phase.OTHER], [math.inf]) == (
        beats.has_page.tolist(),
        beats.phase.tolist(),
        beats.tick_age_s.tolist(),
    )
    assert [unread.ranks for unread in evidence.look.unread] == [(3,)]


def test_child_that_inherits_rank_is_not_a_second_rank(run_dir: str) -> None:
    """RANK is inherited by everything a rank starts: only the outermost Python process is the rank."""
    env = {"DDETECT_RUN_DIR": run_dir, "RANK": "3", "WORLD_SIZE": "8"}
    code = f"""
import subprocess, sys
child = subprocess.Popen([{sys.executable!r}, "-c", "print('up', flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
try:
    sys.stdin.readline()
finally:
    child.kill()
    child.wait()
"""
    with watching(run_dir) as node, running(code, env=env) as rank:
        roster = _roster(node)
        finish(rank)

    assert roster is not None
    assert [rank.pid] == roster.roster.pid.tolist()


def test_bad_page_does_not_stop_the_watch(run_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One broken file is one line in the log, said once; the others are watched."""
    Path(run_dir, "pages", "1.1.page").write_bytes(b"short")
    Path(run_dir, "pages", "2.2.page").write_bytes(b"\0" * layout.SIZE)
    with watching(run_dir) as node, rank_like(run_dir, 0):
        node.tick()
        beats = _beat(node).beats

    assert len(beats) == 1
    assert capsys.readouterr().err.count("not a ddetect page") == 2


def test_order_to_end_terminates_then_kills(run_dir: str) -> None:
    """SIGTERM first; who ignores it for the grace is killed. Nobody else is touched."""
    stubborn = """
import signal, sys, time
from ddetect_probe import page
signal.signal(signal.SIGTERM, signal.SIG_IGN)
writer = page.PageWriter(sys.argv[1], page.ROLE_RANK)
writer.slots[page.S_RANK] = 1
print("ready", flush=True)
time.sleep(600)
"""
    with (
        watching(run_dir) as node,
        rank_like(run_dir, 0) as gentle,
        running(stubborn, os.path.join(run_dir, "pages")) as deaf,
        subprocess.Popen(["sleep", "600"]) as bystander,
    ):
        try:
            node.tick()
            node.answer(EndRanks(3.0))  # time to die of the first signal on a busy machine
            assert (gentle.wait(60), deaf.wait(60)) == (-signal.SIGTERM, -signal.SIGKILL)
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_ranks_that_wait_alike_are_one_sighting(run_dir: str) -> None:
    """A thousand ranks in the same frame are one stack: what differs from process to process is left out."""
    with watching(run_dir) as node, rank_like(run_dir, 0) as one, rank_like(run_dir, 1) as other:
        _settle(one.pid)
        _settle(other.pid)
        sample = _evidence(node).look.sample

    assert (len(sample), len(sample.sightings)) == (2, 1)


def test_restart_replaces_the_roster_and_forgets_the_dead_of_before(run_dir: str) -> None:
    """A new attempt is told as it is: its own processes, and nobody who died in the one before."""
    with watching(run_dir) as node, rank_like(run_dir, 0) as zero, rank_like(run_dir, 1) as one:
        node.tick()
        for child in (zero, one):
            child.kill()
            child.wait()
        node.tick()
        with rank_like(run_dir, 0, restart=1) as fresh:
            roster = _roster(node)
            retold = node.retell()

    assert roster is not None
    assert ([0], [fresh.pid], 1) == (roster.roster.rank.tolist(), roster.roster.pid.tolist(), roster.restart)
    assert not any(isinstance(said, NodeGone) for said in retold)


def test_orphan_of_a_rank_without_a_page_does_not_take_its_place(run_dir: str) -> None:
    """A helper that outlives its rank has the rank's environment; it is not the rank come back."""
    env = {"DDETECT_RUN_DIR": run_dir, "RANK": "3", "WORLD_SIZE": "8"}
    code = f"""
import subprocess, sys
child = subprocess.Popen([{sys.executable!r}, "-c", "import sys; print('up', flush=True); sys.stdin.readline()"],
                         stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
sys.stdin.readline()
"""
    scan = EnvironmentScan(run_dir)
    with running(code, env=env) as rank:
        (found,) = scan.find(known=())
        os.kill(rank.pid, signal.SIGKILL)
        rank.wait()
        orphans = scan.find(known=())

    assert (rank.pid, []) == (found.pid, orphans)
