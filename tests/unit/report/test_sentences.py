"""Values in, English out."""

from __future__ import annotations

import re
from itertools import product
from typing import get_args

import pytest

from ddetect.frameworks.torch import TORCH
from ddetect.model import Names, Process, Where, Words
from ddetect.model.claims import (
    Aborted,
    Addition,
    AlsoDied,
    CallsRefused,
    CallUnknown,
    Circle,
    Claim,
    DeviceBehind,
    Disagree,
    Each,
    ExitedWith,
    FellSilent,
    Held,
    JobIs,
    LeftBehind,
    MayWaitForDevice,
    MissingUnknown,
    NobodyLeaves,
    NobodyMeets,
    OldestDeaths,
    OnPurpose,
    OwnGroups,
    RaisedFirst,
    RanksUnread,
    State,
    StepUntold,
    Vanished,
    WorkersKilled,
)
from ddetect.model.deeds import (
    Act,
    CallMade,
    Deed,
    KernelCall,
    OpLabel,
    Part,
    Side,
    StuckIn,
    Through,
)
from ddetect.report.deeds import deed_words
from ddetect.report.sentences import say

IN_TORCH = Names(TORCH.words, ranks=4)
LINE = Where("read_shard", "dataset.py", 88)
ALL_REDUCE = OpLabel("all_reduce", 412, "default_pg")
WAITS = (StuckIn((0, 1, 3), ALL_REDUCE),)
RAISED = Deed(Act.RAISED, said="ValueError: bad shard\nmore")
MIRRORED = Names(Words(lane="replica"), ranks=1, lanes=4)


def replica(number: int, rank: int = 0) -> int:
    """A member: one of the lanes of a rank."""
    return rank | number << 32


@pytest.mark.parametrize("act", list(Act))
def test_every_act_has_words(act):
    """The vocabulary is closed: what a rule can claim can be said."""
    deed = Deed(
        act, LINE, KernelCall("flock"), "because", ALL_REDUCE, CallMade("gather"), 9, inner=Deed(Act.SLEEPS)
    )

    said = deed_words(deed)

    assert said
    assert act.name not in said


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (Deed(Act.SLEEPS, LINE), "sleeps in dataset.py:88 read_shard"),
        (
            Deed(Act.WAITS_FOR_FILE, target=KernelCall("flock", "/data/x")),
            "waits for a file (flock on /data/x)",
        ),
        (
            Deed(Act.WAITS_FOR_LOADER, process=Process("loader_worker", 1, 7), inner=Deed(Act.SLEEPS, LINE)),
            "waits for its DataLoader: loader worker 1 (pid 7) sleeps in dataset.py:88 read_shard",
        ),
        (
            Deed(Act.LOADS_DATA, LINE, inner=Deed(Act.IS_BUSY)),
            "loads data in its own process and is busy in dataset.py:88 read_shard",
        ),
        (
            Deed(Act.HAS_NOT_JOINED, LINE),
            "has not called init_process_group: it is in dataset.py:88 read_shard",
        ),
        (
            Deed(Act.RAISED_AND_STAYS, LINE, said="ValueError: x\nmore"),
            "raised ValueError: x in dataset.py:88 read_shard and does not get out of its process",
        ),
        (
            Deed(Act.WORKS_BEFORE_CALL, op=OpLabel(""), inner=Deed(Act.IS_BUSY)),
            "is busy inside torch.distributed, before the operation begins",
        ),
        (
            Deed(Act.WORKS_BEFORE_CALL, LINE, op=OpLabel("gather"), inner=Deed(Act.IS_BUSY)),
            "is busy inside gather, before the operation begins, in dataset.py:88 read_shard",
        ),
        (Deed(Act.IS_THERE, LINE), "is in dataset.py:88 read_shard"),
        (Deed(Act.IS_THERE), "does not go on"),
        (
            Deed(Act.WAITS_FOR_LOADER, process=Process("loader_worker", 0, 8378), inner=Deed(Act.IS_THERE)),
            "waits for its DataLoader: loader worker 0 (pid 8378) does not go on",
        ),
        (Deed(Act.LOADS_DATA, inner=Deed(Act.IS_THERE)), "loads data in its own process and does not go on"),
        (
            Deed(Act.LOADS_DATA, LINE, inner=Deed(Act.IS_THERE)),
            "loads data in its own process and is in dataset.py:88 read_shard",
        ),
        (
            Deed(Act.AWAITS_THREAD, thread="uploader_0", inner=Deed(Act.WAITS_FOR_NETWORK, LINE)),
            "waits for its thread 'uploader_0', which waits for the network in dataset.py:88 read_shard",
        ),
        (
            Deed(Act.AWAITS_THREAD, LINE, thread="up", inner=Deed(Act.WAITS_FOR_ANSWER)),
            "waits in dataset.py:88 read_shard for its thread 'up', which waits for a network answer",
        ),
        (
            Deed(Act.AWAITS_CHILD, process=Process("child_process", -1, 4711), inner=Deed(Act.IS_BUSY, LINE)),
            "waits for child process 4711, which is busy in dataset.py:88 read_shard",
        ),
        (
            Deed(
                Act.AWAITS_CHILD,
                process=Process("child_process", -1, 4711),
                inner=Deed(Act.IS_BUSY, LINE),
                others=3,
            ),
            "waits for child process 4711 and 3 more like it, each of which is busy in dataset.py:88 read_shard",
        ),
        (
            Deed(Act.WAITS_FOR_IDLE_LOADER, LINE),
            "waits for its DataLoader in dataset.py:88 read_shard, whose workers are all idle",
        ),
        (Deed(Act.LEFT_GROUP, LINE), "has left its process group, and is in dataset.py:88 read_shard"),
        (
            Deed(Act.IS_IN_UNSEEN_CALL, LINE, op=OpLabel("gather")),
            "is inside gather in dataset.py:88 read_shard, which its recorder does not show",
        ),
        (Deed(Act.WAS_ENDED_BY, signal=15), "was ended by SIGTERM"),
        (
            Deed(Act.CALLED, call=CallMade("broadcast", "[[4]]", "Float", 2)),
            "called broadcast([[4]] Float root 2)",
        ),
    ],
)
def test_deed_reads_as_a_verb_phrase(deed, said):
    """The verb, what it is about, and the line, each from its value."""
    assert deed_words(deed, IN_TORCH) == said


INNER = (
    None,
    Deed(Act.IS_THERE),
    Deed(Act.IS_THERE, LINE),
    Deed(Act.SLEEPS, LINE),
    Deed(Act.WAITS_FOR_FILE, target=KernelCall("flock", "/data/x")),
)
UNFINISHED = re.compile(r"(\b(is|in|of|for|and|by|with|(?<!go )on|to|inside|called|raised|which|code)|\W)$")


@pytest.mark.parametrize("names", [IN_TORCH, Names()], ids=["torch", "plain"])
@pytest.mark.parametrize("act", list(Act))
def test_deed_is_whole_with_and_without_what_belongs_to_it(act, names):
    """No phrase breaks off, whichever of line, target, inner deed, process, operation and word is not known."""
    for where, target, inner, told in product(
        (None, LINE), (None, KernelCall("read"), KernelCall("flock", "/data/x")), INNER, (False, True)
    ):
        deed = Deed(act, where, target, inner=inner)
        if told:
            process = Process("loader_worker", 0, 77) if act is not Act.AWAITS_THREAD else None
            deed = Deed(
                act,
                where,
                target,
                "because",
                ALL_REDUCE,
                CallMade("gather"),
                9,
                process,
                "up_0",
                inner,
                others=2,
            )

        said = deed_words(deed, names)

        assert not UNFINISHED.search(said.removesuffix(")")), said
        assert not re.search(r"  |\(\)|''| [,;:)]|,,|None|\b(in|of|for|and) (in|of|for|and)\b", said), said
        assert where is None or act is Act.NEVER_STARTED or "dataset.py:88" in said
        assert said == said.strip()


SIDES = (
    Side((1,), CallMade("broadcast", root=1), LINE),
    Side((0, 2), CallMade("broadcast", root=0)),
)
SEEN = Side((0, 1), CallMade("barrier"), LINE, seen=True)
SAID = [
    (Each(((2, Deed(Act.SLEEPS)),)), "rank 2 sleeps"),
    (
        Disagree((Part.ROOT,), SIDES, (1,), OpLabel("broadcast", 7, "default_pg")),
        "ranks disagree on the root of #7 of default_pg: rank 1 called broadcast(root 1) in dataset.py:88 "
        "read_shard; ranks 0,2 called broadcast(root 0)",
    ),
    (
        Disagree((Part.OP,), (SEEN,), (0, 1)),
        "ranks disagree on the operation in the default group: ranks 0-1 are in barrier at dataset.py:88 read_shard",
    ),
    (
        Circle((0, 1), Through.SEND_AND_RECEIVE, (StuckIn((0,), OpLabel("send to rank 1")),)),
        "ranks 0-1 wait for each other through send and receive: rank 0 waits in send to rank 1",
    ),
    (
        OwnGroups(SEEN, Side((2,), CallMade("all_reduce"), seen=True)),
        "ranks 0-1 are in barrier at dataset.py:88 read_shard, in groups of their own, and do not come out; rank 2 "
        "is in all_reduce waiting for them",
    ),
    (
        NobodyLeaves((0, 1), ALL_REDUCE),
        "everyone is in and nobody comes out of all_reduce #412 of default_pg: every member is in it, with the "
        "same call, so it is stuck below Python",
    ),
    (NobodyMeets((3,)), "rank 3 cannot join, though every other rank has joined"),
    (
        DeviceBehind((1, 2), False, ALL_REDUCE),
        "the device of each of ranks 1-2 has not begun all_reduce #412 of default_pg, which every rank has enqueued",
    ),
    (
        RaisedFirst((1,), RAISED.said, LINE, victims=(0, 2)),
        "rank 1 raised ValueError: bad shard in dataset.py:88 read_shard; ranks 0,2 died of it",
    ),
    (
        CallsRefused(
            (Side((1,), CallMade("x"), LINE), Side((0, 2), CallMade("x"), LINE)), (1,), "Refused:\n no\n"
        ),
        "ranks called collectives that do not fit: rank 1 was in dataset.py:88 read_shard; ranks 0,2 were in "
        "dataset.py:88 read_shard; refused with Refused: no",
    ),
    (
        Aborted((1,), OpLabel("all_reduce", 21, "default_pg")),
        "rank 1 was aborted inside all_reduce #21 of default_pg: what a peer sent does not fit; which rank called "
        "something else is not known",
    ),
    (
        Aborted(
            (0, 1),
            OpLabel("all_reduce", 21, "default_pg"),
            (Part.SHAPE,),
            (
                Side((2,), CallMade("all_reduce", "[[9]]"), LINE),
                Side((0, 1), CallMade("all_reduce", "[[4]]")),
            ),
            (2,),
        ),
        "ranks disagree on the shape of all_reduce #21 of default_pg: rank 2 called all_reduce([[9]]) in dataset.py:88 "
        "read_shard; ranks 0-1 called all_reduce([[4]]); ranks 0-1 were aborted inside all_reduce #21 of default_pg",
    ),
    (ExitedWith((1,), 3), "rank 1 exited with code 3 without an exception"),
    (Vanished((1,), 77, 0), "rank 1 (pid 77) vanished; its exit code was not seen"),
    (Vanished((1, 2), 77, 0), "ranks 1-2 vanished in the same moment; their exit codes were not seen"),
    (Vanished((1,), 77, 9), "rank 1 (pid 77) vanished without a word: killed by SIGKILL"),
    (Vanished((1, 2), 77, 9, each=True), "ranks 1-2 vanished in the same moment: each was killed by SIGKILL"),
    (WorkersKilled(((1, Process("loader_worker", 0, 5)),)), "loader worker 0 (pid 5) of rank 1 was killed"),
    (LeftBehind((1,), (0, 2)), "rank 1 left early; ranks 0,2 died of the closed connection"),
    (OnPurpose(), "the job was ended by SIGTERM"),
    (OnPurpose((1,)), "the job was interrupted: somebody ended rank 1"),
    (
        FellSilent((("node-1", (2, 3)),), (0,), True),
        "node-1 (ranks 2-3) fell silent; rank 0 died of a closed connection; where it began is not known",
    ),
    (
        OldestDeaths(((0, RAISED),)),
        "rank 0 raised ValueError: bad shard; this usually follows from another rank's fault, which was not seen",
    ),
    (
        MissingUnknown(WAITS, unread=(2,)),
        "ranks 0-1,3 wait in all_reduce #412 of default_pg; rank 2 could not be read, so who is missing is not known",
    ),
    (CallUnknown((0, 1)), "ranks 0-1 are inside torch.distributed, and no recorder tells in which operation"),
    (MayWaitForDevice((1,)), "rank 1 may wait for its device, and no recorder tells in which operation"),
    (
        StepUntold((0, 1), LINE),
        "ranks 0-1 are all inside a step at dataset.py:88 read_shard that does not end: one of them waits for its "
        "data, or all wait below Python, and nothing tells them apart",
    ),
    (JobIs(State.MOVES), "every rank moves"),
    (Held(WAITS, for_one=True), "ranks 0-1,3 wait for it in all_reduce #412 of default_pg"),
    (AlsoDied(((0, Deed(Act.TIMED_OUT)), (1, Deed(Act.TIMED_OUT)))), "ranks 0-1 timed out"),
    (RanksUnread((2, 3), 8), "2 of 8 ranks unread (2-3)"),
]


@pytest.mark.parametrize(("claim", "said"), SAID, ids=lambda value: type(value).__name__)
def test_claim_reads_as_a_sentence(claim, said):
    """Each kind of claim, from values alone."""
    assert say((claim,), IN_TORCH) == said


def test_every_kind_of_claim_is_said():
    """None of the list above is forgotten."""
    assert {type(claim) for claim, _ in SAID} == {*get_args(Claim), *get_args(Addition)}


def test_third_reason_is_counted_with_its_members():
    """A sentence stays a sentence: two parts, and who is in neither."""
    acts = (Act.SLEEPS, Act.IS_BUSY, Act.COMPILES, Act.SLEEPS)
    claims = (Each(tuple((rank, Deed(act)) for rank, act in enumerate(acts))), Held(WAITS, for_one=False))

    assert say(claims) == (
        "each of ranks 0,3 sleeps; rank 1 is busy; and 1 more rank (2); "
        "ranks 0-1,3 wait for them in all_reduce #412 of default_pg"
    )


def test_claims_that_name_nobody_are_counted():
    """Five operations that nobody leaves are two sentences and a number."""
    claims = [NobodyLeaves((0,), OpLabel("barrier", seq), some_left=True) for seq in range(1, 6)]

    assert say(claims).endswith("; 3 more like them")


def test_framework_speaks_its_own_words():
    """The same values, said as people of another framework would."""
    words = Words(member="task", inside="tf.distribute", loader="its tf.data pipeline", join="TF_CONFIG")
    names = Names(words, ranks=4)
    deeds = ((1, Deed(Act.WAITS_FOR_IDLE_LOADER)), (2, Deed(Act.IS_IN_UNSEEN_CALL, op=OpLabel(""))))

    assert say((Each(deeds), RanksUnread((3,), 4)), names) == (
        "task 1 waits for its tf.data pipeline, whose workers are all idle; task 2 is inside tf.distribute, which its "
        "recorder does not show; 1 of 4 tasks unread (3)"
    )


def test_members_of_one_process_are_called_by_lane():
    """With several lanes a member is a replica; what is true of the process is said of the rank."""
    claims = (
        Each(((replica(1), Deed(Act.SLEEPS)),)),
        Held((StuckIn((replica(0), replica(2), replica(3)), OpLabel("all_reduce")),), for_one=True),
        RanksUnread((0,), 1),
    )

    assert say(claims, MIRRORED) == (
        "replica 1 sleeps; replicas 0,2-3 wait for it in all_reduce; 1 of 1 ranks unread (0)"
    )
    assert say((RaisedFirst((0,), "ValueError: x"),), MIRRORED) == "rank 0 raised ValueError: x"
