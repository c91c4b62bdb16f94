"""GPU jobs without recorders: `.item()` and `.cpu()` show only the caller's line, busy. Who is there may wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.classify import classify
from ddetect.correlate.judge import judge, wants_native
from ddetect.frameworks.kinds import Kind
from ddetect.frameworks.torch import TORCH
from ddetect.model import UNKNOWN, CallSpec, Cause, Group, Ops, Progress, Sighting, Snapshot, Status, Unread
from tests.unit.correlate.scenes import DOINGS, FUTEX, SITE, TRAIN, in_call, scene, sighting, thread
from tests.unit.correlate.test_stacks_only import SLEEPER, bare
from tests.unit.snapshots import changed

ITEM, LOADER, SPINS = (DOINGS[name].look for name in ("item", "loader", "spinning"))
SYNC = sighting(
    thread(f"synchronize {SITE}/torch/cuda/__init__.py:900", *TRAIN, state="R", active=True), state="R"
)
REDUCES = in_call("all_reduce", state="R", active=True)
ITEM_NATIVE = ("cuStreamSynchronize", "cudaStreamSynchronize", "at::native::_local_scalar_dense_cuda")


def with_native(look: Sighting, *symbols: str) -> Sighting:
    return replace(look, threads=(replace(look.threads[0], native=symbols),))


def on_gpus(snapshot: Snapshot) -> Snapshot:
    """As it looks where every rank has a GPU that is 100 % busy: NCCL's kernels spin."""
    busy = tuple(replace(sample, gpu_busy=np.full(len(sample), 100.0)) for sample in snapshot.samples)
    return changed(snapshot, samples=busy)


def culprits(snapshot: Snapshot) -> tuple[int, ...]:
    return judge(snapshot).culprit_ranks


# ---------------------------------------------------------------- who may wait is not accused


@pytest.mark.parametrize("victim", [ITEM, SYNC], ids=["item", "synchronize"])
@pytest.mark.parametrize("dress", [on_gpus, lambda snapshot: snapshot], ids=["nvml", "no hint"])
def test_fewer_in_their_loader_come_before_more_at_a_busy_line(victim, dress):
    """Three wait for a device that waits for rank 2."""
    verdict = judge(dress(bare({0: victim, 1: victim, 2: LOADER, 3: victim})))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))


@pytest.mark.parametrize("dress", [on_gpus, lambda snapshot: snapshot], ids=["nvml", "no hint"])
def test_busy_line_is_not_elsewhere_when_another_rank_plainly_is(dress):
    """One still enqueues its all_reduce, two wait in .item(), and rank 3 sleeps."""
    looks = {0: REDUCES, 1: ITEM, 2: ITEM, 3: SLEEPER}

    assert culprits(dress(bare(looks, {0: CallSpec("all_reduce")}))) == (3,)


def test_busy_lines_on_gpus_are_undecided_when_nobody_is_plainly_elsewhere():
    """A call may show only as its caller's line: who is in it and who is not cannot be told."""
    verdict = judge(on_gpus(bare({0: REDUCES, 1: ITEM, 2: ITEM}, {0: CallSpec("all_reduce")})))

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert "ranks 1-2" in verdict.summary
    assert "could not be read" not in verdict.summary


def test_rank_that_spins_in_a_collective_says_that_the_job_is_on_gpus():
    """NCCL spins where gloo sleeps: no other hint is needed to doubt a busy line."""
    looks = {**dict.fromkeys(range(6), ITEM), 6: REDUCES, 7: REDUCES}

    assert culprits(bare(looks, dict.fromkeys((6, 7), CallSpec("all_reduce")))) == ()


def test_open_device_that_nobody_told_about_is_a_hint_too():
    """Without NVML: the process holds a GPU's device file."""
    snapshot = bare({0: in_call("all_reduce"), 1: SPINS}, {0: CallSpec("all_reduce")})
    held = tuple(replace(sample, gpu_busy=np.full(len(sample), UNKNOWN)) for sample in snapshot.samples)

    assert (culprits(snapshot), culprits(changed(snapshot, samples=held))) == ((1,), ())


def test_group_of_a_device_backend_says_that_the_job_is_on_gpus():
    """Launched, with pages, and no recorder answers: the groups tell."""
    snapshot = scene(item=[0, 1, 3], spinning=[2])
    snapshot = changed(
        snapshot, progress=Progress(), ops=Ops(), groups=(Group("nccl", "0", "default_pg", (0, 1, 2, 3)),),
        unread=(Unread((0, 1, 2, 3), "collectives: no handler"),),
    )  # fmt: skip

    assert judge(snapshot).status is Status.UNDECIDED


def test_everyone_waiting_for_its_device_names_nobody():
    """All ranks in one frame: below Python, and no recorder tells where."""
    verdict = judge(on_gpus(bare(dict.fromkeys(range(4), SYNC))))

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert "wait for their devices" in verdict.summary


def test_single_process_that_waits_for_its_device_is_named():
    """Nobody else could keep it waiting."""
    verdict = judge(on_gpus(bare({0: SYNC})))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DEVICE_STUCK, (0,))


def test_spinning_rank_is_named_where_no_gpu_is():
    """On gloo nothing hides behind a busy line: the others are plainly in their collective."""
    looks = {0: in_call("all_reduce"), 1: SPINS, 2: in_call("all_reduce")}

    assert culprits(bare(looks, {0: CallSpec("all_reduce"), 2: CallSpec("all_reduce")})) == (1,)


# ---------------------------------------------------------------- the native stack decides


@pytest.mark.parametrize(
    "symbol",
    [
        "cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cuStreamSynchronize_ptsz",
        "at::native::_local_scalar_dense_cuda(at::Tensor const&)", "hipStreamSynchronize", "hipDeviceSynchronize",
        "at::cuda::memcpy_and_sync(void*, void*, long, cudaMemcpyKind, CUstream_st*)",
    ],
)  # fmt: skip
def test_symbol_of_the_runtime_says_that_it_waits_for_its_device(symbol):
    """Python shows only the caller's line."""
    doing = classify(with_native(ITEM, symbol, "_PyEval_EvalFrameDefault"), TORCH)

    assert (doing.kind, doing.frame.line if doing.frame else 0) == (Kind.DEVICE_SYNC, 61)


@pytest.mark.parametrize("symbol", ["cudaLaunchKernel", "libcuda.so"])
def test_rank_that_stands_inside_the_runtime_waits_for_its_device(symbol):
    """A full queue holds who launches; the driver has no names for its functions."""
    assert classify(with_native(ITEM, symbol), TORCH).kind is Kind.DEVICE_SYNC


def test_code_for_the_gpu_is_not_yet_the_runtime():
    """A C++ name with cuda in it proves nothing."""
    look = with_native(ITEM, "at::native::vectorized_gather_cuda(at::Tensor, cudaMemcpyKind)", "take_cpu")

    assert classify(look, TORCH).kind is Kind.USER


def test_ranks_at_a_busy_line_on_gpus_are_asked_for_their_native_stack():
    """It tells .item() from a loop. Once told, nobody is asked again."""
    vague = on_gpus(bare({0: REDUCES, 1: ITEM, 2: SPINS}, {0: CallSpec("all_reduce")}))
    told = {0: REDUCES, 1: with_native(ITEM, *ITEM_NATIVE), 2: with_native(SPINS, "_PyEval_EvalFrameDefault")}

    assert wants_native(vague) == (4010, 4020)
    assert wants_native(on_gpus(bare(told, {0: CallSpec("all_reduce")}))) == ()


def test_nobody_is_asked_for_a_native_stack_that_decides_nothing():
    """Without a GPU a spinning rank is elsewhere, and a sleeping one is so anyway."""
    looks = {0: in_call("all_reduce"), 1: SPINS, 2: in_call("all_reduce")}

    assert wants_native(bare(looks)) == ()
    assert wants_native(on_gpus(bare({0: REDUCES, 1: SLEEPER}))) == ()


def test_native_stack_tells_the_loop_from_those_that_wait():
    """Three in .item(), one in a loop of its own: all busy, all at a user's line."""
    waits = with_native(ITEM, *ITEM_NATIVE)
    spins = with_native(SPINS, "_PyEval_EvalFrameDefault")

    verdict = judge(on_gpus(bare({0: waits, 1: waits, 2: spins, 3: waits})))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (2,))


def test_native_stack_of_an_earlier_look_still_speaks_while_the_functions_are_the_same():
    """It is asked for once; a loop shows another line in the next look, and is the same loop."""
    told = {0: REDUCES, 1: with_native(SPINS, "_PyEval_EvalFrameDefault"), 2: REDUCES}
    next_line = sighting(thread("spin /job/train.py:58", *TRAIN, active=True, state="R"), state="R")
    first, later = (on_gpus(bare({**told, 1: look})) for look in (told[1], next_line))

    both = changed(later, samples=(*first.samples[:1], *later.samples[:1]))

    assert culprits(both) == (1,)
    assert wants_native(both) == ()


def test_native_stack_is_asked_for_again_before_it_is_forgotten():
    """Only the newest looks are kept: a verdict must not change because the telling one falls out."""
    told = {0: REDUCES, 1: with_native(SPINS, "_PyEval_EvalFrameDefault"), 2: REDUCES}
    first, later = (on_gpus(bare({**told, 1: look})) for look in (told[1], SPINS))

    assert wants_native(changed(later, samples=(*first.samples[:1], *later.samples[:2]))) == (4010,)


# ---------------------------------------------------------------- a futex at a user's line


def test_futex_at_a_users_line_may_be_work_wait():
    """No page, no recorder, no native stack: three that may wait, one that sleeps elsewhere."""
    handle = sighting(thread("sync_gradients /job/train.py:31", *TRAIN, **FUTEX))

    verdict = judge(bare({0: handle, 1: handle, 2: SLEEPER, 3: handle}))

    assert verdict.culprit_ranks == (2,)
