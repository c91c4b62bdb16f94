"""GPUs through NVML, where there are any, and who has one open.

Enters: nothing, or a pid. Leaves: one Gpu per device, or none and a reason. A host without NVIDIA's library is normal
and says nothing on its own.
Never here: CUDA, which would open a context on the device.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_DEVICE_FILE = re.compile(r"/dev/(nvidia\d+|kfd)$")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device; `pids` maps each process on it to the bytes it holds (-1 when the driver does not tell)."""

    index: int
    name: str
    busy_percent: int
    memory_used: int
    memory_total: int
    pids: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Gpus:
    """What NVML told; `reason` says why there is nothing."""

    gpus: tuple[Gpu, ...] = ()
    reason: str = ""


def busy_by_pid(gpus: Gpus) -> dict[int, float]:
    """How busy the busiest GPU of each process is, in percent; nothing for a process that is on none."""
    found: dict[int, float] = {}
    for gpu in gpus.gpus:
        for pid, _ in gpu.pids:
            if gpu.busy_percent >= 0:
                found[pid] = max(found.get(pid, 0.0), float(gpu.busy_percent))
    return found


def has_gpu_open(pid: int, proc: str = "/proc") -> bool:
    """Whether a process holds a GPU's device file: NVML may be missing, or know it by another pid than we do."""
    folder = f"{proc}/{pid}/fd"
    try:
        return any(_DEVICE_FILE.match(_target(f"{folder}/{name}")) for name in os.listdir(folder))
    except OSError:
        return False  # gone, or not ours to read


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed since it was listed


def read_gpus() -> Gpus:
    """Look at every GPU once. Never raises."""
    try:
        import pynvml
    except ImportError:
        return Gpus(reason="pynvml is not installed: pip install nvidia-ml-py")
    try:
        pynvml.nvmlInit()
    except Exception as error:  # NVMLError, or whatever a broken driver makes of it
        return Gpus(reason=f"no NVIDIA driver on this host ({error})")
    try:
        return Gpus(tuple(_read_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())))
    except Exception as error:
        return Gpus(reason=f"NVML failed: {error}")
    finally:
        try:
            pynvml.nvmlShutdown()
        except Exception:
            pass  # a driver that fell over while we read


def _read_gpu(pynvml: object, index: int) -> Gpu:
    nvml: dict[str, object] = vars(pynvml)

    def ask(name: str, *args: object) -> object:
        function = nvml[name]
        assert callable(function)
        return function(*args)

    device = ask("nvmlDeviceGetHandleByIndex", index)
    name = ask("nvmlDeviceGetName", device)
    busy = getattr(ask("nvmlDeviceGetUtilizationRates", device), "gpu", -1)
    memory = ask("nvmlDeviceGetMemoryInfo", device)
    running = ask("nvmlDeviceGetComputeRunningProcesses", device)
    assert isinstance(running, list)
    return Gpu(
        index,
        name.decode() if isinstance(name, bytes) else str(name),
        int(busy),
        int(getattr(memory, "used", -1)),
        int(getattr(memory, "total", -1)),
        tuple((int(p.pid), int(-1 if p.usedGpuMemory is None else p.usedGpuMemory)) for p in running),
    )
