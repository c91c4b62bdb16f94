"""The shape of a framework: what the judge, the agent and the report ask it. Values and pure functions.

Enters: nothing. Leaves: `Framework` and the small values that its functions answer with. What a field does not say is
as in a plain program. Never here: any one framework's names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from ddetect.frameworks.patterns import NOTHING, Patterns
from ddetect.model import UNKNOWN, CallSpec, Frame, Group, Words

NEVER = re.compile(r"(?!)")
"""A pattern that fits nothing."""


class Needs(Enum):
    """Who has to come for an operation to end."""

    ALL = "every member"
    ROOT = "the root, and then every member"
    ANY = "one of those that are missing"


class NativeMode(Enum):
    """Of which threads the C symbols may be read: that takes a pause, from half a second to several."""

    PYTHON = "threads with Python"
    ALL = "all threads"
    NONE = "no thread"  # its peers take a rank for dead that is paused for so long


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, as people call it, and whom it waits for."""

    name: str
    needs: Needs = Needs.ALL


class Agreement(NamedTuple):
    """What all members of a group must agree on in one slot; "" and UNKNOWN mean that nobody told."""

    op: str
    shape: str = ""
    dtype: str = ""
    root: int = UNKNOWN
    reduce_op: str = ""


@dataclass(frozen=True, slots=True)
class CallNames:
    """The functions that talk to other members, and which of their arguments tell whom: read from a stack's frames."""

    file: str = ""  # how the path of their module ends; empty: there are none
    wrapper: str = ""  # how the path of a module ends that passes arguments on to them
    peers: dict[str, str] = field(default_factory=dict)  # function -> the argument that is its peer
    roots: dict[str, str] = field(default_factory=dict)  # function -> the argument that is its root
    rootless: frozenset[str] = frozenset()
    default_group: Group | None = None  # the one that a call means which names none


def plain_operation(spec: CallSpec | None) -> Operation:
    """An operation under its own name, for which everybody has to come."""
    return Operation(spec.op if spec is not None else "an operation")


def plain_agreement(spec: CallSpec) -> Agreement:
    """Members agree on everything that is told."""
    return Agreement(spec.op, spec.in_sizes, spec.in_dtypes, spec.root, spec.reduce_op)


@dataclass(frozen=True, repr=False)
class Framework:
    """All that is asked of a framework."""

    name: str
    patterns: Patterns = NOTHING  # what its stacks mean, and which packages are its own
    operation: Callable[[CallSpec | None], Operation] = plain_operation
    agreement: Callable[[CallSpec], Agreement] = plain_agreement
    on_device: Callable[[str], bool] = lambda backend: (
        False
    )  # whether a backend's host runs ahead of a device
    announces: Callable[[str], bool] = lambda backend: (
        False
    )  # whether a number is taken when the call begins that will enter: who has one may still be on its way
    has_everyone: Callable[[Group], bool] = lambda group: False  # the group that all members are in
    tells_of_a_peer: Callable[[str, str], bool] = lambda exception, file: False  # it died because another did
    saw_a_death: Callable[[str], bool] = lambda exception: False  # and that other one is dead, not only late
    refuses_calls: Callable[[str], bool] = lambda exception: (
        False
    )  # it died because members called what does not fit together
    lost_workers: Callable[[str], tuple[int, ...]] = (
        lambda exception: ()
    )  # loader workers whose death it tells
    handles: bool = (
        True  # a host may wait for others at a line of the user's, and nothing of the framework's shows
    )
    aside: re.Pattern[str] = NEVER  # the names of tasks that take part in no operation of the others
    stands_s: Callable[[Frame], float] = lambda innermost: (
        0.0
    )  # a healthy thread whose innermost Python is here may stand still for so long
    exit_takes_s: float = 0.0  # a process may need so long to end, and do nothing that could be seen
    native_call: re.Pattern[str] = NEVER  # a C symbol inside an operation
    native_data: re.Pattern[str] = NEVER  # a C symbol that waits for data
    native_mode: Callable[[int], NativeMode] = lambda world: (
        NativeMode.PYTHON
    )  # of a rank in a world of this many; UNKNOWN: nobody knows how many
    raises_letters: bool = False  # a rank that waits raises what it is sent in its page's mailbox
    worker_loop: re.Pattern[str] = NEVER  # "file:function" of the loop of a loader worker
    service_threads: re.Pattern[str] = (
        NEVER  # the kernel's names of threads that run for ever, whether the job moves or not
    )
    hands_over: re.Pattern[str] = NEVER  # the file of a thread that has the batch in its hands
    between_lanes: frozenset[str] = frozenset()  # operations in which the lanes of one process meet
    calls: CallNames = field(default_factory=CallNames)
    words: Words = field(default_factory=Words)

    def __repr__(self) -> str:
        return f"<framework {self.name or 'unknown'}>"

    def knowing(self, more: Patterns) -> Framework:
        """The same framework, with patterns that are tried before its own."""
        return replace(self, patterns=more.before(self.patterns))
