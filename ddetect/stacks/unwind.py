"""A program: print the C frames of all threads of a process that stood still for a few milliseconds only.

Enters: a pid. Leaves: on stdout what `pystack remote --native-all` would print, so that one parser reads both. Where to
return to is read while the threads stand still; which symbols that are, which takes seconds in a library of half a
gigabyte, is looked up when they run again. libdw walks the stacks; it comes with pystack.
Never here: a process of which threads are stopped, traced or in D (dump.py asks for none).
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_long, c_size_t, c_uint64, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ddetect.stacks.elf import Functions

DEEPEST = 128
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_ALL_THREADS = 0x40000000  # __WALL
_FRAME = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
_EVALUATES = "_PyEval_EvalFrame"


class _Callbacks(ctypes.Structure):
    _fields_ = [
        ("find_elf", c_void_p),
        ("find_debuginfo", c_void_p),
        ("section_address", c_void_p),
        ("debuginfo_path", c_void_p),
    ]


class Unwinder:
    """libdw, attached to one process. Use it from one thread: the kernel knows a tracer by its thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [c_long, c_long, c_void_p, c_void_p]
        self._libc.ptrace.restype = c_long
        self._dw = _load_libdw()
        self._callbacks = _Callbacks(
            self._address("dwfl_linux_proc_find_elf"), self._address("dwfl_standard_find_debuginfo")
        )
        self._dwfl = self._dw.dwfl_begin(byref(self._callbacks))
        if self._dw.dwfl_linux_proc_report(self._dwfl, pid):
            raise OSError(f"no such process: {pid}")
        self._dw.dwfl_report_end(self._dwfl, None, None)
        self._names: dict[int, str] = {}
        self._files: dict[str, Functions | None] = {}

    def read(self) -> dict[int, list[int]]:
        """Stop all threads, note where each would return to, let them run: {tid: addresses, innermost first}."""
        stopped: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        try:
            while fresh := [tid for tid in self._threads() if tid not in stopped]:  # those may start others
                for tid in fresh:
                    stopped[tid] = self._stop(tid)
            if self._dw.dwfl_linux_proc_attach(self._dwfl, self._pid, True):
                raise OSError("libdw could not attach")
            self._dw.dwfl_getthreads(self._dwfl, _FRAME(lambda thread, _: self._walk(thread, found)), None)
        finally:
            for tid, signal in stopped.items():
                self._libc.ptrace(_DETACH, tid, None, signal)
        return found

    def name(self, address: int) -> str:
        """The symbol of an address and its library, as pystack prints them."""
        if address not in self._names:
            module = self._dw.dwfl_addrmodule(self._dwfl, address)
            start, library = c_uint64(), b"?"
            if module:
                library = self._dw.dwfl_module_info(module, None, byref(start), *[None] * 5) or b"?"
            path = library.decode(errors="replace")
            raw = self._function(path, address - start.value)
            if not raw and module:
                raw = self._dw.dwfl_module_addrname(module, address)
            self._names[address] = f"{_demangled(raw or b'???')} ({path})"
        return self._names[address]

    def _function(self, path: str, offset: int) -> bytes:
        if path not in self._files:
            try:
                self._files[path] = Functions(path)
            except ValueError:
                self._files[path] = (
                    None  # the kernel's own piece of code, a file that was replaced: libdw may know
                )
        functions = self._files[path]
        return functions.name(offset) if functions is not None else b""

    def _threads(self) -> list[int]:
        return [int(tid) for tid in os.listdir(f"/proc/{self._pid}/task")]

    def _stop(self, tid: int) -> int:
        """Stop it, and return the signal that it was about to get: it must get it when it is let go."""
        if self._libc.ptrace(_SEIZE, tid, None, None):
            if ctypes.get_errno() == 3:  # it has ended
                return 0
            raise PermissionError(f"Permission denied (os error {ctypes.get_errno()})")
        self._libc.ptrace(_INTERRUPT, tid, None, None)
        status = c_int()
        self._libc.waitpid(tid, byref(status), _ALL_THREADS)
        stopped, event = status.value & 0xFF == 0x7F, status.value >> 16
        return (status.value >> 8) & 0xFF if stopped and not event else 0

    def _walk(self, thread: int, found: dict[int, list[int]]) -> int:
        addresses = found.setdefault(self._dw.dwfl_thread_tid(thread), [])

        def note(state: int, _: int) -> int:
            address, exact = c_uint64(), c_bool()
            if not self._dw.dwfl_frame_pc(state, byref(address), byref(exact)):
                return -1
            # A caller's address is the one behind its call, which may be the next function's already.
            addresses.append(address.value - (not exact.value))
            return int(len(addresses) >= DEEPEST)

        self._dw.dwfl_thread_getframes(thread, _FRAME(note), None)
        return 0

    def _address(self, name: str) -> int | None:
        return ctypes.cast(getattr(self._dw, name), c_void_p).value


def _load_libdw() -> Any:
    spec = find_spec("pystack")
    if spec is None or spec.origin is None:
        raise ImportError("pystack is not installed")
    folder = Path(spec.origin).parents[1] / "pystack.libs"
    for needed in ("libzstd*", "libelf*"):  # under the names that libdw was linked with
        for path in folder.glob(needed):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    found = [str(path) for path in folder.glob("libdw*")]
    dw = ctypes.CDLL(found[0] if found else "libdw.so.1")
    for name, result, arguments in (
        ("dwfl_begin", c_void_p, [c_void_p]),
        ("dwfl_linux_proc_report", c_int, [c_void_p, c_int]),
        ("dwfl_report_end", c_int, [c_void_p] * 3),
        ("dwfl_linux_proc_attach", c_int, [c_void_p, c_int, c_bool]),
        ("dwfl_getthreads", c_int, [c_void_p, _FRAME, c_void_p]),
        ("dwfl_thread_tid", c_int, [c_void_p]),
        ("dwfl_thread_getframes", c_int, [c_void_p, _FRAME, c_void_p]),
        ("dwfl_frame_pc", c_bool, [c_void_p, POINTER(c_uint64), POINTER(c_bool)]),
        ("dwfl_addrmodule", c_void_p, [c_void_p, c_uint64]),
        ("dwfl_module_addrname", c_char_p, [c_void_p, c_uint64]),
        ("dwfl_module_info", c_char_p, [c_void_p] * 8),
    ):
        function = getattr(dw, name)
        function.restype, function.argtypes = result, arguments
    return dw


def _demangled(raw: bytes) -> str:
    if raw.startswith(b"_Z"):
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        demangle.restype, demangle.argtypes = (
            c_void_p,
            [c_char_p, c_void_p, POINTER(c_size_t), POINTER(c_int)],
        )
        plain = demangle(raw, None, None, None)
        if plain:
            return (ctypes.cast(plain, c_char_p).value or raw).decode(
                errors="replace"
            )  # not freed: we end soon
    return raw.decode(errors="replace")


def sees_the_same_files(pid: int) -> bool:
    """Whether a path means the same file to it and to us; else we would name its functions after our libraries."""
    try:
        return os.path.samefile(f"/proc/{pid}/ns/mnt", "/proc/self/ns/mnt")
    except OSError:
        return False


def main() -> int:
    """Print the threads of one process."""
    pid = int(sys.argv[1])
    if not sees_the_same_files(pid):
        print("its libraries are not ours: it runs in another container", file=sys.stderr)
        return 1
    unwinder = Unwinder(pid)
    for tid, addresses in sorted(unwinder.read().items()):
        try:
            name = Path(f"/proc/{pid}/task/{tid}/comm").read_text(errors="replace").strip()
        except OSError:
            name = ""  # it has ended since
        print(f"Traceback for thread {tid} ({name}) [] (most recent call last):")
        for symbol in map(unwinder.name, reversed(addresses)):
            language = "Python" if symbol.startswith(_EVALUATES) else "C"
            print(f'    ({language}) File "???", line 0, in {symbol}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
