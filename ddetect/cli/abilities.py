"""What ddetect can do on this host, found out by doing it once.

Enters: this host. Leaves: Ability values, each with what was found and what to do about it.
Never here: printing; importing torch or TensorFlow (their versions are read from their metadata).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ddetect_probe import rundir

from ddetect.cli.rundirs import base_folders
from ddetect.host.gpu import read_gpus
from ddetect.host.proc import read_status
from ddetect.host.ptrace import why_not, yama_scope
from ddetect.stacks.failure import DumpFailed
from ddetect.stacks.parse import SeenThread
from ddetect.stacks.pyspy import read_pyspy
from ddetect.stacks.pystack import read_pystack

OK, WARN, FAIL = "ok", "warn", "fail"
"""WARN: something is missing that some jobs do without. FAIL: detection needs it."""

TORCH_TESTED = "2.13"
TENSORFLOW_TESTED = "2.21"
_TENSORFLOW_HOOKED = (2, 16)  # older ones need another protobuf than we do, and have other insides
_TENSORFLOW_NAMES = ("tensorflow", "tensorflow-cpu", "tf-nightly")
_NEEDED_MB = 16  # a page is 24 KiB; the rest is snapshots of sockets and logs
_TARGET = "def wait_for_doctor():\n print('ready', flush=True)\n input()\nwait_for_doctor()"
_CAP_SYS_PTRACE = 19
_TRACE_REMEDY = (
    "Give ddetect ptrace: run it as the job's user with kernel.yama.ptrace_scope=0, or as root, or with\n"
    "CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE; Kubernetes: securityContext.capabilities.add)."
)


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing ddetect does on a host. `remedy` says what to do when `state` is not ok."""

    name: str
    state: str
    found: str
    remedy: str = ""


def try_all() -> tuple[Ability, ...]:
    """Try everything, in the order in which a job would need it."""
    with _target() as pid:
        dumpers = try_dumpers(pid)
        ptrace = try_ptrace(pid)
        proc = try_proc(pid)
    return (
        *dumpers,
        ptrace,
        proc,
        try_shared_memory(),
        try_unix_socket(),
        try_loopback(),
        try_wire(),
        try_nvml(),
        try_torch(),
        try_tensorflow({ability.name for ability in dumpers if ability.state == OK}),
        try_token(os.environ.get("DDETECT_TOKEN")),
    )


@contextlib.contextmanager
def _target() -> Iterator[int]:
    """A small Python process to look at: not an ancestor of the dumpers, as with a real job."""
    with subprocess.Popen(
        [sys.executable, "-c", _TARGET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child.pid
        finally:
            child.kill()


def try_dumpers(pid: int) -> tuple[Ability, ...]:
    """Dump a process with each dumper. One is enough; without any there are no stacks."""
    tried = [
        ("py-spy", lambda: read_pyspy(pid, blocking=True, timeout_s=10)),
        ("pystack", lambda: read_pystack(pid, blocking=True, timeout_s=10)),
    ]
    results = [_try_dumper(name, dump) for name, dump in tried]
    if all(result.state == WARN for result in results):
        return tuple(Ability(r.name, FAIL, r.found, r.remedy) for r in results)
    return tuple(results)


def _try_dumper(name: str, dump: Callable[[], tuple[SeenThread, ...]]) -> Ability:
    try:
        threads = dump()
    except DumpFailed as failed:
        return Ability(name, WARN, failed.reason, _TRACE_REMEDY)
    functions = [frame.function for seen in threads for frame in seen.thread.stack]
    if "wait_for_doctor" not in functions:
        return Ability(name, WARN, "it dumped a process and missed its function", f"pip install -U {name}")
    return Ability(name, OK, "dumped a Python process")


def try_ptrace(pid: int) -> Ability:
    """Ask the kernel whether we may look into another process: the reason behind a dumper that fails."""
    return ptrace_ability(why_not(pid), yama_scope(), read_status(os.getpid()))


def ptrace_ability(reason: str, scope: int, ours: dict[str, str]) -> Ability:
    """Say what the kernel said. Our own child is a kind target: Yama forbids all others at scope 1."""
    capable = bool(int(ours.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1)
    found = f"yama scope {scope}, {'CAP_SYS_PTRACE held' if capable else 'no CAP_SYS_PTRACE'}"
    if reason:
        return Ability("ptrace", WARN, f"{found}; {reason}", _TRACE_REMEDY)
    if scope > 0 and not capable:
        return Ability("ptrace", WARN, f"{found}; only children may be traced", _TRACE_REMEDY)
    return Ability("ptrace", OK, found if capable else f"{found}: processes of the same user only")


def try_proc(pid: int, root: Path = Path("/proc")) -> Ability:
    """Read what the agent reads of a process. `stat` is needed; the others sharpen a verdict."""
    unreadable = []
    for name in ("stat", "status", "io", "wchan", "syscall", "environ"):
        try:
            (root / str(pid) / name).read_bytes()
        except OSError:
            unreadable.append(name)
    if "stat" in unreadable:
        return Ability(
            "/proc", FAIL, f"cannot read /proc/PID/stat of pid {pid}", "Mount /proc without hidepid."
        )
    if unreadable:
        return Ability(
            "/proc", WARN, f"cannot read {', '.join(unreadable)} of another process", _TRACE_REMEDY
        )
    return Ability("/proc", OK, "stat, status, io, wchan, syscall and environ are readable")


def try_shared_memory() -> Ability:
    """Allocate a run directory's worth of memory where the launcher would put it."""
    tried: list[str] = []
    for base in base_folders(os.environ):
        folder = _existing(base)
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".ddetect-doctor-") as file:
                os.posix_fallocate(file.fileno(), 0, 1 << 20)
                free_mb = shutil.disk_usage(folder).free >> 20
        except OSError as error:
            tried.append(f"{folder}: {error.strerror or error}")
            continue
        if tried:
            return Ability(
                "shared memory",
                WARN,
                f"{'; '.join(tried)}; {folder} is used instead ({free_mb} MB free)",
                "Give the container a larger /dev/shm (docker run --shm-size 1g) or set DDETECT_RUN_BASE.",
            )
        if free_mb < _NEEDED_MB:
            return Ability(
                "shared memory",
                WARN,
                f"only {free_mb} MB free in {folder}",
                "Free some, or set DDETECT_RUN_BASE.",
            )
        return Ability("shared memory", OK, f"{free_mb} MB free in {folder}")
    return Ability(
        "shared memory", FAIL, "; ".join(tried), "Set DDETECT_RUN_BASE to a folder that you may write to."
    )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest parent that there is."""
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def try_unix_socket() -> Ability:
    """Talk through a unix socket where the run directory would be."""
    tried: list[str] = []
    for folder in map(_existing, base_folders(os.environ)):
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".ddetect-doctor-") as inside:
                path = os.path.join(inside, rundir.COORDINATOR_SOCKET)
                with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
                    server.bind(path)
                    server.listen(1)
                    client.connect(path)
        except OSError as error:
            tried.append(f"cannot listen in {folder}: {error.strerror or error}")
            continue
        return Ability("unix socket", OK, f"listened in {folder}")
    remedy = "Set DDETECT_RUN_BASE to a short path on a local file system."
    return Ability("unix socket", FAIL, "; ".join(tried), remedy)


def try_loopback() -> Ability:
    """Open a port on loopback; only jobs over several nodes need one."""
    try:
        with socket.socket(socket.AF_INET) as server, socket.socket(socket.AF_INET) as client:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.settimeout(2)
            client.connect(server.getsockname())
    except OSError as error:
        found = f"no port on 127.0.0.1: {error.strerror or error}"
        return Ability("loopback port", WARN, found, "Bring the interface up: ip link set lo up")
    return Ability("loopback port", OK, "a port on 127.0.0.1 answered")


def try_wire() -> Ability:
    """Load gRPC, protobuf and our own messages, as the agent and the coordinator must."""
    try:
        from ddetect.wire.v1 import agent_pb2_grpc, client_pb2_grpc  # noqa: F401
    except Exception as error:  # whatever a broken install raises: that is what is asked here
        return Ability("grpc", FAIL, f"does not load: {error}", "pip install --force-reinstall ddetect")
    return Ability(
        "grpc", OK, f"grpcio {metadata.version('grpcio')}, protobuf {metadata.version('protobuf')}"
    )


def try_nvml() -> Ability:
    """Ask NVML for GPUs; without it GPU columns stay empty."""
    seen = read_gpus()
    if seen.reason:
        remedy = "Nothing to do on a CPU node. On a GPU node the container needs the driver (--gpus all)."
        return Ability("NVML", WARN, seen.reason, remedy)
    names = ", ".join(sorted({gpu.name for gpu in seen.gpus}))
    return Ability("NVML", OK, f"{len(seen.gpus)} GPU{'s' * (len(seen.gpus) != 1)} {names}".rstrip())


def try_torch() -> Ability:
    """The torch of this interpreter, if any; the job may have another."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        remedy = "Only matters for `ddetect demo` and jobs in this interpreter: pip install 'ddetect[torch]'"
        return Ability("torch", WARN, "not installed beside ddetect", remedy)
    if not version.startswith(f"{TORCH_TESTED}."):
        remedy = f"ddetect was tested with torch {TORCH_TESTED}; what another version lacks is left out."
        return Ability("torch", WARN, f"version {version}", remedy)
    return Ability("torch", OK, f"version {version}")


def try_tensorflow(dumpers: Collection[str]) -> Ability:
    """The TensorFlow of this interpreter, if any; as a rule the job has one of its own."""
    return tensorflow_ability(next(filter(None, map(_version, _TENSORFLOW_NAMES)), ""), dumpers)


def tensorflow_ability(version: str, dumpers: Collection[str]) -> Ability:
    """Say what can be seen of a TensorFlow job here: by which dumpers, and what of a version that is old."""
    here = f"version {version}" if version else "not installed beside ddetect, and need not be"
    found = f"jobs are watched (tested with {TENSORFLOW_TESTED}), in any environment; {here}"
    if version and _numbers(version) < _TENSORFLOW_HOOKED:
        oldest = ".".join(map(str, _TENSORFLOW_HOOKED))
        remedy = f"The probe hooks TensorFlow {oldest} and newer; of an older one only stacks are seen."
        return Ability("tensorflow", WARN, f"version {version}", remedy)
    if "py-spy" not in dumpers:
        return Ability("tensorflow", WARN, f"{here}; py-spy cannot look into a job", _TRACE_REMEDY)
    if "pystack" not in dumpers:
        remedy = "Without pystack C++ threads are not seen (MirroredStrategy: data or others?): pip install pystack"
        return Ability("tensorflow", WARN, found, remedy)
    return Ability("tensorflow", OK, found)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def try_token(token: str | None) -> Ability:
    """Is there a token? Jobs on one node need none."""
    if token:
        return Ability("DDETECT_TOKEN", OK, "set")
    remedy = "Only matters for several nodes; the same on all: export DDETECT_TOKEN=$(openssl rand -hex 16)"
    return Ability("DDETECT_TOKEN", WARN, "not set", remedy)
