"""Which function of a library an address is in, found by halves: libdw asks every symbol, and there may be 800,000.

Enters: the path of an ELF file of 64 bits. Leaves: names as they were linked; ValueError for what is no such file.
Never here: processes.
"""

from __future__ import annotations

import mmap
import struct

import numpy as np

_SYMBOL = np.dtype(
    [("name", "<u4"), ("kind", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_SYMBOLS, _EXPORTED = 2, 11  # kinds of sections: all symbols, or at least those that others may use
_FUNCTION, _CHOSEN_AT_START = 2, 10  # kinds of symbols
_LOADED = 1
_PAGE = 4096


class Functions:
    """The functions of one file, by where they lie in it."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            if self._data[:6] != b"\x7fELF\x02\x01":
                raise ValueError("it is no ELF file of 64 bits")
            self._read()
        except (OSError, ValueError, struct.error, IndexError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error

    def _read(self) -> None:
        programs, sections = struct.unpack_from("<2Q", self._data, 32)
        step, count, width, number = struct.unpack_from("<4H", self._data, 54)
        parts = [struct.unpack_from("<2I6Q", self._data, programs + i * step) for i in range(count)]
        starts = [part[3] for part in parts if part[0] == _LOADED]
        self.start = min(starts, default=0) // _PAGE * _PAGE
        tables = [struct.unpack_from("<2I4Q2I2Q", self._data, sections + i * width) for i in range(number)]
        table = max(
            (one for one in tables if one[1] in (_SYMBOLS, _EXPORTED)), key=lambda one: one[5], default=None
        )
        if table is None:
            raise ValueError("it has no symbols")
        self._strings = tables[table[6]][4]
        symbols = np.frombuffer(self._data, _SYMBOL, table[5] // _SYMBOL.itemsize, table[4])
        kind = symbols["kind"] & 15
        symbols = symbols[((kind == _FUNCTION) | (kind == _CHOSEN_AT_START)) & (symbols["section"] != 0)]
        self._symbols = symbols[np.argsort(symbols["at"], kind="stable")]
        self._at = np.ascontiguousarray(self._symbols["at"])

    def name(self, offset: int) -> bytes:
        """The function at a distance from where the file is loaded; empty if there is none."""
        position = self.start + offset
        row = int(np.searchsorted(self._at, np.uint64(position), side="right")) - 1
        if row < 0:
            return b""
        symbol = self._symbols[row]
        if symbol["size"] and position >= int(symbol["at"]) + int(symbol["size"]):
            return b""
        begins = self._strings + int(symbol["name"])
        return self._data[begins : self._data.find(b"\0", begins)]
