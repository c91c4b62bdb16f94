"""What to do, from what is known."""

from __future__ import annotations

import pytest

from ddetect.frameworks.torch import TORCH
from ddetect.model import Cause, Culprit, Names, Process, Where, Words
from ddetect.model.deeds import Act, Deed, KernelCall, OpLabel, StuckIn
from ddetect.report.advice import advise

LINE = Where("export", "train.py", 16)
STEPS = "Give every rank the same number of steps (drop_last, an even sampler, or DDP's join())."


def advice(cause: Cause, deed: Deed, op: str = "", names: Names | None = None) -> tuple[str, ...]:
    """For one culprit, while others wait in an operation."""
    held = (StuckIn((0, 1), OpLabel(op, 7)),) if op else ()
    return advise(cause, (Culprit(2, pid=77, deed=deed),), held, names or Names(TORCH.words))


@pytest.mark.parametrize(
    ("deed", "op", "first", "second"),
    [
        (Deed(Act.EXITED), "all_reduce", "See why its program ended", STEPS),
        (
            Deed(Act.LEFT_GROUP, LINE),
            "backward (DDP's all_reduce)",
            "Look at the line named: it has left",
            STEPS,
        ),
        (
            Deed(Act.LEFT_GROUP, LINE),
            "barrier",
            "Look at the line named: it has left",
            "Let every rank call barrier, or none.",
        ),
        (Deed(Act.LEAVES, LINE), "all_reduce", "Look at the line named: its program has ended", STEPS),
        (Deed(Act.LEAVES), "all_gather", "See why its program ended before the others: a return", STEPS),
        (Deed(Act.LEFT_EARLY), "", "See why it left its process group before the others", STEPS),
    ],
)
def test_who_left_early_is_advised_by_how_it_left_and_what_it_misses(deed, op, first, second):
    """Even steps help only where steps were uneven; at a barrier of an evaluation they do not."""
    lines = advice(Cause.LEFT_EARLY, deed, op)

    assert lines[0].startswith(first)
    assert lines[1:] == (second,)


@pytest.mark.parametrize(
    ("cause", "deed", "first"),
    [
        (
            Cause.FILE_IO,
            Deed(Act.WAITS_FOR_FILE, target=KernelCall("flock", "/data/x.lock")),
            "Find who holds the lock on /data/x.lock (`lslocks`), and let go of it there.",
        ),
        (
            Cause.FILE_IO,
            Deed(
                Act.WAITS_FOR_LOADER,
                process=Process("loader_worker", 0, 5),
                inner=Deed(Act.IS_IN_KERNEL, target=KernelCall("read", "/nfs/a")),
            ),
            "See why read on /nfs/a does not return: its file system, or the other end of a pipe.",
        ),
        (
            Cause.FILE_IO,
            Deed(Act.SAVES),
            "Check the file system or the file lock that the process waits for.",
        ),
        (Cause.DATA_LOADING, Deed(Act.WAITS_FOR_IDLE_LOADER), "Find the batch that was lost"),
        (
            Cause.DATA_LOADING,
            Deed(Act.LOADS_DATA, inner=Deed(Act.SLEEPS)),
            "Look at the line named: what does",
        ),
        (Cause.RENDEZVOUS, Deed(Act.NEVER_STARTED), "Start the missing ranks"),
        (Cause.RENDEZVOUS, Deed(Act.HAS_NOT_JOINED, LINE), "Look at the line named: init_process_group is"),
    ],
)
def test_advice_says_what_the_values_tell(cause, deed, first):
    """A lock, a path, a worker or a line that is known is in the sentence; else the cause's own stands."""
    assert advice(cause, deed)[0].startswith(first)


@pytest.mark.parametrize(
    ("cause", "deed", "op", "said"),
    [
        (
            Cause.USER_CODE,
            Deed(Act.SLEEPS, LINE),
            "all_reduce",
            "Look at the line named: the other ranks cannot go on until it returns.",
        ),
        (
            Cause.USER_CODE,
            Deed(Act.SLEEPS, LINE),
            "",
            "Look at the line named: what keeps it from returning?",
        ),
        (
            Cause.PYTHON_EXCEPTION,
            Deed(Act.RAISED_AND_STAYS, LINE),
            "all_reduce",
            "Fix the exception: the other ranks wait because of it.",
        ),
        (
            Cause.PYTHON_EXCEPTION,
            Deed(Act.RAISED, LINE),
            "",
            "Fix the exception; errors of other ranks follow from it.",
        ),
        (
            Cause.LEFT_EARLY,
            Deed(Act.LEAVES),
            "",
            "See what keeps its process from ending: a thread that is no daemon, or an exit handler.",
        ),
        (
            Cause.LEFT_EARLY,
            Deed(Act.LEAVES, LINE),
            "",
            "Look at the line named: its program has ended, and runs that on its way out.",
        ),
    ],
)
def test_others_are_said_to_wait_only_where_somebody_does(cause, deed, op, said):
    """In a job where nobody waits there is nobody to be kept waiting, nor steps to be made even."""
    lines = advice(cause, deed, op, Names(TORCH.words, ranks=4))

    assert lines[0] == said
    assert op or not any("every rank" in line or "others" in line for line in lines)


@pytest.mark.parametrize("ranks", [1, 4])
def test_exception_of_all_ranks_has_no_others(ranks):
    """The only rank of a job, or all that there are, raised it."""
    culprits = tuple(Culprit(rank, deed=Deed(Act.RAISED)) for rank in range(ranks))

    assert advise(Cause.PYTHON_EXCEPTION, culprits, (), Names(TORCH.words, ranks=ranks)) == (
        "Fix the exception.",
    )


def test_ranks_that_do_not_find_each_other_are_not_told_to_start():
    """Everybody is there: what is wrong is how they meet."""
    (line,) = advise(Cause.RENDEZVOUS, ())

    assert line.startswith("Give all ranks one address and port")


def test_framework_gives_its_own_remedies():
    """Another framework has another word for even steps."""
    words = Words(even_steps="drop_remainder or AutoShardPolicy", in_steps=("all_reduce",))
    names = Names(words, ranks=1, lanes=2)

    assert advice(Cause.LEFT_EARLY, Deed(Act.EXITED), "all_reduce", names)[1] == (
        "Give every replica the same number of steps (drop_remainder or AutoShardPolicy)."
    )


@pytest.mark.parametrize("cause", [Cause.LEFT_EARLY, Cause.P2P_DEADLOCK, Cause.ALL_ENTERED_NONE_LEFT])
def test_framework_without_remedies_leaves_no_gap(cause):
    """What has no name in a framework is not spoken of."""
    for line in advise(cause, (), (), Names(Words())):
        assert " ()" not in line
        assert ", ." not in line
        assert "  " not in line
