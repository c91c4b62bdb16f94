"""Lines that torch 2.13.0 printed under TORCH_DISTRIBUTED_DEBUG=DETAIL (gloo), without the tensors' options."""

from __future__ import annotations

from tests.hangbench.tools.detail import NO_DDP, is_alarm, read
from tests.hangbench.tools.overhear import Answer

START = "*****************************************\nSetting OMP_NUM_THREADS environment variable for each process\n"
BARRIER = (
    "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=35OpType=BARRIER), but Rank 0 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=0OpType=GATHER).Collectives differ in the following aspects: "
    "\t Sequence number: 35vs 0  Op type: BARRIERvs GATHER\n"
)
ALL_REDUCE = (
    "[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
    "CollectiveFingerPrint(SequenceNumber=35, OpType=ALLREDUCE, TensorShape=[8], TensorDtypes=Float, "
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)), but Rank 1 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE).Collectives differ in the following aspects: "
    "\t Sequence number: 35vs 0  Op type: ALLREDUCEvs REDUCE\n"
)
IN_SUBGROUP = (
    "[rank2]:[E1116 05:47:43.067041278 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 1 failed to pass monitoredBarrier in "
    "20000 ms\n"
    "[rank2]: RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 20000 ms\n"
    "[rank3]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
    "send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
)
MISSING = (
    "[rank0]:[E1116 05:47:43.144315356 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 2 failed to pass monitoredBarrier in "
    "20000 ms\n"
    "[rank0]: RuntimeError: [Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 20000 ms\n"
)
TIMED_OUT = (
    "[rank1]: RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 20000ms for recv\n"
)
ROOT_CAUSE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_05:31:16
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 17)
"""


def test_a_start_is_no_alarm_and_neither_is_our_own_refusal() -> None:
    assert not is_alarm(START)
    assert not is_alarm(START + NO_DDP + "\n" + ROOT_CAUSE.format(code=1))


def test_of_three_that_disagree_the_odd_one_is_named_by_what_each_says_of_itself() -> None:
    words = BARRIER + ALL_REDUCE.format(rank=0) + ALL_REDUCE.format(rank=2)
    assert is_alarm(words)
    answer = read(words)
    assert (answer.culprits, answer.status, answer.cause) == ((1,), "hang", "collective_mismatch")


def test_of_two_that_disagree_both_are_named() -> None:
    assert read(BARRIER + ALL_REDUCE.format(rank=0)).culprits == (0, 1)


def test_who_did_not_come_is_named_without_a_cause() -> None:
    answer = read(IN_SUBGROUP + MISSING + ROOT_CAUSE.format(code=1))
    assert (answer.culprits, answer.status, answer.cause) == ((2, 3), "hang", None)


def test_a_rank_of_a_subgroup_is_not_taken_for_a_rank_of_the_job() -> None:
    assert read(IN_SUBGROUP + ROOT_CAUSE.format(code=1)).culprits is None


def test_whoever_gave_up_waiting_is_not_named() -> None:
    assert read(TIMED_OUT + ROOT_CAUSE.format(code=1)).culprits is None


def test_torchruns_report_and_the_programs_own_exception_are_not_its_words() -> None:
    words = "[rank1]: ValueError: record 17 has 3 fields\n" + ROOT_CAUSE.format(code=1)
    assert not is_alarm(words)
    assert read(words) == Answer()
