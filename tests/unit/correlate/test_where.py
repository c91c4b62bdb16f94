"""Which line of a stack is shown, and how it is marked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.correlate import where as module
from ddetect.correlate.classify import classify_thread
from ddetect.correlate.judge import judge
from ddetect.correlate.where import Whose
from ddetect.frameworks.kinds import Kind
from ddetect.frameworks.torch import TORCH
from ddetect.model import Frame, Role, Snapshot, Where
from ddetect.model.homes import CodeHomes
from ddetect.report.words import format_where
from tests.unit.correlate.scenes import (
    FETCH,
    FUTEX,
    LIB,
    SITE,
    SLEEPS,
    TRAIN,
    build,
    frames,
    sighting,
    thread,
)

UNKNOWN = CodeHomes()
WDS = f"url_opener {SITE}/webdataset/tariterators.py:88"
WORKER = f"_worker_loop {SITE}/torchdata/stateful_dataloader/worker.py:229"
STATEFUL = f"{SITE}/torchdata/stateful_dataloader/stateful_dataloader.py"


def told(snapshot: Snapshot, homes: CodeHomes) -> Snapshot:
    """The snapshot of a job whose interpreter was asked."""
    newest = replace(snapshot.newest, homes=homes)
    return replace(snapshot, looks=(*snapshot.looks[:-1], newest))


def stuck_in(*lines: str) -> Snapshot:
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "asleep").look = sighting(thread(*lines, **SLEEPS))
    return builder.snapshot()


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ((WDS, *TRAIN), "train"),
        ((f"read {LIB}/socket.py:1", WDS, f"fetch {SITE}/torch/x.py:1"), "url_opener"),
        ((f"step {SITE}/torch/x.py:1", f"wait {LIB}/threading.py:1"), None),
        (("hook /x/ddetect_probe/torch_.py:1", *TRAIN), "train"),
        ((), None),
    ],
)
def test_line_is_the_users_else_a_plain_librarys_else_none(lines, line):
    """However deep the user's line lies, a library's is shown only where there is none."""
    found = Whose(UNKNOWN, TORCH.patterns.packages).line(frames(*lines))

    assert (found.function if found is not None else None) == line


def test_library_line_is_shown_and_marked_where_no_line_is_the_users():
    """In the culprit's place and in the sentence."""
    verdict = judge(stuck_in(WDS, f"<module> {SITE}/acme/train.py:3"))

    assert verdict.culprits[0].where == Where("url_opener", "tariterators.py", 88, library=True)
    assert "tariterators.py:88 url_opener (a library's line)" in verdict.summary


def test_frame_of_anybody_else_is_marked_wherever_it_comes_from():
    """A recorder's caller, an exception's line: what is not the user's says so."""
    whose = Whose(UNKNOWN, frozenset({"torch"}))
    files = ("/job/train.py", f"{SITE}/acme/io.py", f"{SITE}/torch/nn.py", f"{LIB}/queue.py")

    marks = [whose.where(Frame("f", file, 1)) for file in files]

    assert [where.library for where in marks if where is not None] == [False, True, True, True]
    assert whose.where(None) is None


def test_distribution_that_holds_main_is_the_users():
    """A console script's package lies in site-packages, and its lines are the ones to look at."""
    snapshot = stuck_in(WDS, f"read {SITE}/acme/data.py:9", f"main {SITE}/acme/cli.py:3")

    where = judge(told(snapshot, CodeHomes(site=(SITE,), user=(f"{SITE}/acme",)))).culprits[0].where

    assert where == Where("read", "data.py", 9)
    assert format_where(where) == "data.py:9 read"


def test_each_file_is_decided_once_and_not_without_end(monkeypatch):
    """A hundred thousand ranks show the same few files; a job that makes up names does not fill our memory."""
    asked: list[str] = []
    original = module.whose
    monkeypatch.setattr(
        module, "whose", lambda file, homes, named: asked.append(file) or original(file, homes, named)
    )
    monkeypatch.setattr(module, "_MOST_FILES", 4)
    whose = Whose(UNKNOWN, frozenset())

    for _ in range(9):
        whose.owner(Frame("f", "/job/train.py", 1))
    assert asked == ["/job/train.py"]
    for number in range(9):
        whose.owner(Frame("f", f"<made up {number}>", 1))
    assert len(whose._known) <= 4


@pytest.mark.parametrize(
    ("lines", "role", "kind", "function"),
    [
        ((f"_try_get_data {STATEFUL}:1220", *TRAIN), Role.RANK, Kind.DATA_LOADING, "train"),
        (("read_shard /job/data.py:8", FETCH, WORKER, *TRAIN), Role.LOADER_WORKER, Kind.FETCH, "read_shard"),
        (("load_state /job/data.py:8", WORKER, *TRAIN), Role.LOADER_WORKER, Kind.FETCH, "load_state"),
        ((WDS, FETCH, WORKER, *TRAIN), Role.LOADER_WORKER, Kind.FETCH, "url_opener"),
        ((f"get {LIB}/multiprocessing/queues.py:113", WORKER, *TRAIN), Role.LOADER_WORKER, Kind.LOADER_IDLE, None),
        ((f"next {SITE}/torchdata/nodes/prefetch.py:49", f"__next__ {SITE}/torchdata/nodes/base_node.py:76", *TRAIN),
         Role.RANK, Kind.DATA_LOADING, "train"),
    ],
)  # fmt: skip
def test_torchdata_is_known_as_a_loader(lines, role, kind, function):
    """Its workers have a loop of their own, below which the forking parent's frames do not count."""
    doing = classify_thread(thread(*lines), TORCH, role=role)

    assert (doing.kind, doing.frame.function if doing.frame is not None else None) == (kind, function)


def test_stuck_worker_of_a_stateful_loader_is_data_loading_at_its_own_line():
    """It was called file_io at the line of the for loop."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    consumer = sighting(thread(f"_try_get_data {STATEFUL}:1220", f"__next__ {STATEFUL}:450", *TRAIN, **FUTEX))
    worker = sighting(thread("read_shard /job/data.py:8", FETCH, WORKER, *TRAIN, **SLEEPS))
    row = builder.does(1, "loader")
    row.look, row.workers = consumer, (worker,)

    verdict = judge(builder.snapshot())

    assert (verdict.cause and verdict.cause.value, verdict.culprits[0].where) == (
        "data_loading",
        Where("read_shard", "data.py", 8),
    )
