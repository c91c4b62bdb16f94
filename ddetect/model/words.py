"""How a framework's things are called, and who the members of one job are, so that a sentence can name them.

Enters: nothing. Leaves: frozen values. Never here: sentences (ddetect.report), what a framework does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Words:
    """How people who use a framework call its things; a plain program's words where it has none of its own."""

    member: str = "rank"  # who is judged, where a process is one member; and the process where it is several
    task: str = "worker"  # what a cluster calls a plain member, with its rank
    lane: str = "replica"  # one of several members that share a process
    inside: str = "an operation with others"  # where a thread is that talks to other members
    join: str = "joining the job"  # the operation in which members first meet
    backward: str = "backward"  # a wait inside the backward pass
    backward_call: str = "backward"  # the same as the name of a call
    loader: str = "its loader"
    hands_over: str = "hands batches over"  # what a thread of the rank does between loader and loop
    # For advice. Empty: there is nothing to name.
    in_steps: tuple[str, ...] = ()  # operations in which every step meets the others
    even_steps: str = ""  # what gives every member the same number of steps
    exchange: str = ""  # a call that sends and receives at once
    below: str = ""  # whose settings may be at fault below Python
    starved: str = ""  # why no batch may come, where no loader worker was seen
    see_through: str = ""  # how to see what a compiled step waits for, and what that costs
    recorder: str = ""  # what numbers the operations of its members; empty: their stacks tell as much


@dataclass(frozen=True, slots=True)
class Names:
    """How the members of one job are called: by rank, or by lane where one process holds several of them."""

    words: Words = field(default_factory=Words)
    ranks: int = 1
    lanes: int = 1
    tasks: tuple[tuple[int, str], ...] = ()  # ranks that their cluster calls by another name: (0, "chief")

    @property
    def noun(self) -> str:
        """One member: "rank", or "replica"."""
        return self.words.lane if self.lanes > 1 else self.words.member

    @property
    def by_rank(self) -> Names:
        """The same job, for what is true of whole processes: a death, a node that fell silent."""
        return replace(self, lanes=1)
