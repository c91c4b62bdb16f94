"""Functions of a real library: where it says that they begin, in their middle, and where there is none."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from ddetect.stacks.elf import Functions


def loaded(name: str) -> tuple[str, int]:
    """The path of a library in this process, and where it begins."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if name in line:
            return line.split()[-1], int(line.partition("-")[0], 16)
    raise AssertionError(f"{name} is not loaded")


@pytest.mark.parametrize("function", ["puts", "qsort", "fopen"])
def test_function_is_found_by_any_address_in_it(function: str):
    """As a stack has it: not the beginning, but where a call returns to."""
    path, start = loaded("libc.so")
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value
    assert address is not None

    functions = Functions(path)

    names = {functions.name(address - start), functions.name(address - start + 4)}
    assert len(names) == 1
    assert function.encode() in names.pop()  # it may have several names: _IO_puts


def test_address_outside_has_no_name():
    """Neither before the first function nor far behind the last."""
    path, _ = loaded("libc.so")

    assert (Functions(path).name(0), Functions(path).name(1 << 40)) == (b"", b"")


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh", b"\x7fELF\x02\x01" + bytes(20)])
def test_file_that_is_no_library_says_so(tmp_path: Path, content: bytes):
    """A file that was replaced while it is in use, a script, half a file."""
    path = tmp_path / "x.so"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"x\.so"):
        Functions(str(path))
