"""How a framework's things are called, and who the members of one job are, so that a sentence can name them.

Enters: nothing. Leaves: frozen values. Never here: sentences (ddetect.report), what a framework does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Words:
    """How people who use a framework call its things; torch's words where a framework has none of its own."""

    member: str = "rank"  # who is judged, where a process is one member; and the process where it is several
    lane: str = "replica"  # one of several members that share a process
    inside: str = "torch.distributed"  # where a thread is that talks to other members
    join: str = "init_process_group"  # the call in which members first meet
    backward: str = "backward (DDP's all_reduce)"  # the wait inside the backward pass
    backward_call: str = "DDP's all_reduce (backward)"  # the same as the name of a call
    loader: str = "its DataLoader"
    # for advice: "Give every rank the same number of steps (...)", "..., or use ...", "network, firewalls, NICs, ..."
    even_steps: str = "drop_last, an even sampler, or DDP's join()"
    in_steps: tuple[str, ...] = (
        "all_reduce",
        "reduce_scatter",
        "all_gather",
    )  # where every step meets the others
    exchange: str = "batch_isend_irecv"
    below: str = "NCCL or gloo settings"


@dataclass(frozen=True, slots=True)
class Names:
    """How the members of one job are called: by rank, or by lane where one process holds several of them."""

    words: Words = field(default_factory=Words)
    ranks: int = 1
    lanes: int = 1

    @property
    def noun(self) -> str:
        """One member: "rank", or "replica"."""
        return self.words.lane if self.lanes > 1 else self.words.member

    @property
    def by_rank(self) -> Names:
        """The same job, for what is true of whole processes: a death, a node that fell silent."""
        return replace(self, lanes=1)
