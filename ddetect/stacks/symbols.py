"""What the C++ threads of a process do, in few and short words.

Enters: what unwind.py or `pystack remote --native-all` printed. Leaves: a `NativeThread` per thread that does or waits
for something of its own, innermost symbol first. A pool's idle threads, the primitives everything waits in, the
interpreter's own frames and template arguments say nothing and differ from run to run: they are dropped, and equal
threads are one.
Never here: processes, what a symbol means for a verdict (the framework knows).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST_THREADS = 24
"""Threads without Python kept: a pool of hundreds must not become a message of megabytes."""
MOST_SYMBOLS = 32
LONGEST = 160

_HEAD = re.compile(r"Traceback for thread (\d+) \((.*?)\) \[(.*?)\] \(most recent call last\):")
_LINE = re.compile(r'\s*\((C|Python)\) File ".*", line \d+, in (.+)$')
_INTERPRETER = re.compile(r"^(lib)?python[\d.]*(\.so.*)?$|^(ld-|lib(c|m|pthread|stdc\+\+|gcc_s)[-.])")
_PRIMITIVE = re.compile(
    r"^(absl::(Mutex|CondVar|Notification|synchronization_internal|internal_any_invocable|base_internal)\b|Absl"
    r"|std::|nsync|Eigen::EventCount|tsl::PThread::ThreadFn$|tsl::\w+::PThread::ThreadFn$|syscall$|_start$)"
)
# The innermost function, primitives aside, of a thread that waits for work or for a clock.
_IDLE = re.compile(
    r"::PooledThreadFunc$|::WaitForWork$|::WorkerLoop$|::OptimizeLoop$|::SleepForMicroseconds$"
    r"|blas_thread_server|^gomp_|^__kmp_|^(epoll|poll|select)|^cq_(next|pluck)|^pollset|^grpc_|^(grpc|grpc_core|grpc_event_engine)::"
)
_VERSION = re.compile(r"\blts_\d+::")


@dataclass(frozen=True, slots=True)
class NativeThread:
    """A thread's C symbols, innermost first; `name` is the kernel's."""

    tid: int
    name: str
    symbols: tuple[str, ...]
    has_python: bool = False


def parse_native(text: str) -> tuple[NativeThread, ...]:
    """Read what was printed: every thread that tells something. Raises ValueError when there is no thread at all."""
    found: list[tuple[int, str, list[tuple[str, str]]]] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            found.append((int(head[1]), head[2], []))
            continue
        frame = _LINE.match(line)
        if frame and found:
            found[-1][2].append((frame[1], frame[2]))
    if not found:
        raise ValueError("no thread was printed")
    return telling(_thread(tid, name, frames[::-1]) for tid, name, frames in found)


def telling(threads: Iterable[NativeThread]) -> tuple[NativeThread, ...]:
    """Python's threads, and of the others each different one that is not idle: the deepest first, if there are many."""
    python: list[NativeThread] = []
    others: dict[tuple[str, tuple[str, ...]], NativeThread] = {}
    for one in threads:
        if one.has_python:
            python.append(one)
        elif one.symbols and not _IDLE.search(one.symbols[0]):
            others.setdefault((one.name, one.symbols), one)
    deepest = sorted(others.values(), key=lambda one: (-len(one.symbols), one.name, one.symbols))
    kept = sorted(deepest[:MOST_THREADS], key=lambda one: (one.name, one.symbols))
    return (*python, *kept)


def _thread(tid: int, name: str, frames: list[tuple[str, str]]) -> NativeThread:
    """`frames` are innermost first. The interpreter's own are told only below the innermost line of Python: a lock."""
    symbols: list[str] = []
    has_python = any(language == "Python" for language, _ in frames)
    inner = has_python
    for language, text in frames:
        if language == "Python":
            inner = False
            continue
        symbol, _, library = text.rpartition(" (")
        of_interpreter = _INTERPRETER.match(library.rstrip(")").rpartition("/")[2]) is not None
        word = short(symbol or text)
        if (of_interpreter and not inner) or _PRIMITIVE.search(word) or word in symbols[-1:]:
            continue
        symbols.append(word)
    return NativeThread(tid, name, tuple(symbols[:MOST_SYMBOLS]), has_python)


def short(symbol: str) -> str:
    """A demangled name without template arguments, parameters, return type and inline versions."""
    plain = symbol.removesuffix(" (inlined)").replace("(anonymous namespace)::", "")
    plain = plain.replace("operator()", "operator").replace("->", "")
    plain = _VERSION.sub("", _without(_without(plain, "{", "}"), "<", ">"))
    plain = plain.partition("(")[0].strip()
    return (plain.rpartition(" ")[2] or symbol)[:LONGEST]


def _without(text: str, opens: str, closes: str) -> str:
    kept: list[str] = []
    depth = 0
    for letter in text:
        depth += letter == opens
        if depth == 0:
            kept.append(letter)
        depth -= letter == closes and depth > 0
    return "".join(kept)
