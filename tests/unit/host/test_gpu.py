from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddetect.host.gpu import Gpu, Gpus, busy_by_pid, has_gpu_open, read_gpus


def test_host_without_nvml_says_why_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No library is the normal case: a reason, no exception."""
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert (read_gpus().gpus, "not installed" in read_gpus().reason) == ((), True)


def test_memory_is_told_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device, what it holds, and for whom; a driver that hides a process's memory gives -1."""
    fake = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda device: b"H100",
        nvmlDeviceGetUtilizationRates=lambda device: SimpleNamespace(gpu=93),
        nvmlDeviceGetMemoryInfo=lambda device: SimpleNamespace(used=5, total=9),
        nvmlDeviceGetComputeRunningProcesses=lambda device: [
            SimpleNamespace(pid=11, usedGpuMemory=4),
            SimpleNamespace(pid=12, usedGpuMemory=None),
        ],
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)

    (gpu,) = read_gpus().gpus

    assert (
        gpu.name,
        gpu.busy_percent,
        gpu.memory_used,
        gpu.memory_total,
        gpu.pids,
    ) == ("H100", 93, 5, 9, ((11, 4), (12, -1)))


def test_process_on_two_devices_is_as_busy_as_the_busier() -> None:
    """One number per process, and none for a device that does not tell."""
    gpus = Gpus(
        (
            Gpu(0, "H100", 3, 5, 9, ((11, 4),)),
            Gpu(1, "H100", 80, 5, 9, ((11, 4), (12, 1))),
            Gpu(2, "H100", -1, 5, 9, ((13, 1),)),
        )
    )

    assert busy_by_pid(gpus) == {11: 80.0, 12: 80.0}


@pytest.mark.parametrize(
    ("target", "is_gpu"),
    [("/dev/nvidia3", True), ("/dev/kfd", True), ("/dev/nvidiactl", False), ("/data/nvidia0", False)],
)
def test_process_that_holds_a_device_file_is_on_a_gpu(tmp_path: Path, target: str, is_gpu: bool) -> None:
    """NVML need not know it; the control file alone is opened by who only counts devices."""
    folder = tmp_path / "11" / "fd"
    folder.mkdir(parents=True)
    (folder / "0").symlink_to("/dev/null")
    (folder / "7").symlink_to(target)

    assert has_gpu_open(11, str(tmp_path)) is is_gpu
    assert not has_gpu_open(12, str(tmp_path))
