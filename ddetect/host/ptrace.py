"""May we look into a process, and if not, why and what to do about it.

Enters: a pid. Leaves: a sentence with the remedy, or "" when we may. The kernel itself is asked (opening
/proc/PID/mem goes through the same check as attaching); the rest only explains its answer.
Never here: attaching to anything.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

from ddetect.host.proc import read_status

_CAP_SYS_PTRACE = 19
_PROCESS_VM_READV = {"x86_64": 310, "aarch64": 270}
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"


def why_not(pid: int) -> str:
    """Why this process may not be traced, with the remedy; "" when it may."""
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"pid {pid} is gone"
    except OSError:
        return explain(read_status(os.getpid()), read_status(pid), pid, yama_scope())
    return why_not_at_all()


def why_not_at_all() -> str:
    """Why nothing can be traced from here (a seccomp filter), with the remedy; "" when nothing forbids it."""
    number = _PROCESS_VM_READV.get(platform.machine())
    if number is None:
        return ""
    libc = ctypes.CDLL(None, use_errno=True)
    # Reads nothing from ourselves: only a filter can refuse it.
    if libc.syscall(ctypes.c_long(number), os.getpid(), None, 0, None, 0, 0) < 0:
        code = ctypes.get_errno()
        if code in (errno.EPERM, errno.ENOSYS, errno.EACCES):
            return (
                "a seccomp filter forbids process_vm_readv; run the container with SYS_PTRACE "
                "(Kubernetes: securityContext.capabilities.add, docker: --cap-add SYS_PTRACE)"
            )
    return ""


def explain(ours: dict[str, str], theirs: dict[str, str], pid: int, yama: int) -> str:
    """Name the rule that forbids it, from /proc/PID/status of both sides. Pure."""
    if not theirs:
        return f"pid {pid} is gone"
    if int(theirs.get("TracerPid", "0") or 0) > 0:
        return f"pid {pid} is already traced by pid {theirs['TracerPid']}; end that debugger"
    if _capable(ours):
        return f"the kernel protects pid {pid} in spite of our CAP_SYS_PTRACE (another user namespace)"
    if theirs.get("Uid", "").split()[:1] != ours.get("Uid", "").split()[:1]:
        return (
            f"pid {pid} belongs to another user (uid {_uid(theirs)}, ours is {_uid(ours)}); "
            "run ddetect as that user or give it CAP_SYS_PTRACE"
        )
    if yama >= 3:
        return "ptrace is switched off on this host (kernel.yama.ptrace_scope=3); only a reboot can change it"
    if yama == 2:
        return "ptrace needs CAP_SYS_PTRACE on this host (kernel.yama.ptrace_scope=2); give it to ddetect"
    if yama == 1:
        return (
            "ptrace is allowed for child processes only (kernel.yama.ptrace_scope=1); "
            "give ddetect CAP_SYS_PTRACE, or `sysctl kernel.yama.ptrace_scope=0`"
        )
    extra = int(theirs.get("CapPrm", "0"), 16) & ~int(ours.get("CapPrm", "0"), 16)
    if extra:
        return f"pid {pid} holds capabilities that ddetect lacks; give ddetect CAP_SYS_PTRACE"
    return f"pid {pid} forbids being looked at (it is not dumpable); give ddetect CAP_SYS_PTRACE"


def yama_scope() -> int:
    """kernel.yama.ptrace_scope; 0 where the kernel has no Yama."""
    try:
        with open(_YAMA, encoding="ascii") as setting:
            return int(setting.read())
    except (OSError, ValueError):
        return 0


def _capable(status: dict[str, str]) -> bool:
    return bool(int(status.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1)


def _uid(status: dict[str, str]) -> str:
    return (status.get("Uid", "?").split() or ["?"])[0]
