"""DataLoader: when a rank waits for its data, and which index each loader worker fetches.

Enters: `_BaseDataLoaderIter.__next__`, the two fetchers, `_worker_loop`; of torchdata's StatefulDataLoader, which is
made of the first three, its own worker loop and `__iter__`, where it waits for its workers' first word. Leaves: the
DATA phase, batch and fetch counters, the loader worker's role and index. Never here: the data itself.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from sys import exc_info
from time import monotonic_ns
from typing import Any

from ddetect_probe import lane, page, state
from ddetect_probe.on_import import after_import
from ddetect_probe.page import DATA, L_BATCHES, LANES_AT, S_FETCH, S_FETCH_NS, S_FETCHES, pack_pair
from ddetect_probe.splice import splice
from ddetect_probe.state import KEEP, LANE, mirror

BATCHES_AT = (LANES_AT + L_BATCHES) * 8
STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"


def install() -> None:
    """Hook the loader of the torch that is loaded."""
    import torch.utils.data._utils.fetch as fetch
    import torch.utils.data._utils.worker as worker
    import torch.utils.data.dataloader as dataloader

    for function, enter, leave, params in (
        (dataloader._BaseDataLoaderIter.__next__, enter_next, leave_next, ()),
        (fetch._MapDatasetFetcher.fetch, enter_fetch, leave_fetch, ("possibly_batched_index",)),
        (fetch._IterableDatasetFetcher.fetch, enter_iterable_fetch, leave_fetch, ()),
        (worker._worker_loop, enter_worker, leave_worker, ("worker_id",)),
    ):
        if not splice(function, enter, leave, params):
            state.broken(function.__qualname__)
    after_import(STATEFUL, hook_stateful)


def hook_stateful() -> None:
    """Hook torchdata's loader, where it is another than torch's."""
    try:
        loader: Any = sys.modules[STATEFUL]
        spliced = splice(loader._worker_loop, enter_worker, leave_worker, ("worker_id",))
        if not splice(loader.StatefulDataLoader.__iter__, enter_next, lane.leave_phase) or not spliced:
            state.broken("StatefulDataLoader")
    except Exception:
        state.broken("StatefulDataLoader")


def enter_next() -> int:
    """The rank asks for a batch."""
    if get_ident() != state.owner:
        return lane.enter(DATA, monotonic_ns())
    before = mirror.phase
    mirror.phase = DATA
    state.slots[LANE] = (monotonic_ns() & KEEP) | DATA
    return before


def leave_next(before: int) -> None:
    """It has one, or there is none left."""
    now = monotonic_ns()
    if exc_info()[0] is None:
        mirror.batches = batches = mirror.batches + 1
        pack_pair(state.raw, BATCHES_AT, batches, now)
        if state.undecided:
            state.decide_alone("torch")
    if before >= state.floor:
        mirror.phase = before
        state.slots[LANE] = (now & KEEP) | before
    else:
        lane.leave(before, now)


def enter_fetch(index: Any) -> None:
    """Somebody (a loader worker, or the rank itself) begins to read samples."""
    slots = state.slots
    first = index[0] if type(index) is list and index else index
    slots[S_FETCH_NS] = monotonic_ns()
    slots[S_FETCH] = first if type(first) is int and first >= 0 else mirror.fetches


def enter_iterable_fetch() -> None:
    """An iterable dataset has no index: the number of the fetch stands for it."""
    slots = state.slots
    slots[S_FETCH_NS] = monotonic_ns()
    slots[S_FETCH] = mirror.fetches


def leave_fetch(token: None) -> None:
    """The samples are read."""
    slots = state.slots
    slots[S_FETCH] = -1
    mirror.fetches = fetches = mirror.fetches + 1
    slots[S_FETCHES] = fetches


def enter_worker(worker_id: int) -> None:
    """This process is a loader worker."""
    slots = state.slots
    slots[page.S_ROLE] = page.ROLE_LOADER_WORKER
    slots[page.S_WORKER_INDEX] = worker_id
    mirror.phase = page.OTHER
    slots[LANE] = monotonic_ns() & KEEP
    state.undecided = False


def leave_worker(token: None) -> None:
    """It ends; the page says how once multiprocessing is done with it."""
