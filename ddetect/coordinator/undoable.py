"""A dictionary of values that can be taken back to how it was: the cost is that of what was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, TypeVar

Value = TypeVar("Value")
_ABSENT = object()


class Undoable(MutableMapping[str, Value], Generic[Value]):
    """Names and frozen values, in the order in which they came."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._before: dict[str, object] = {}
        self._order: list[str] | None = None

    def begin(self) -> Callable[[], None]:
        """Forget what was before; returns what takes everything back that happens from here on."""
        self._before, self._order = {}, None
        return self._undo

    def _undo(self) -> None:
        for name, value in self._before.items():
            if value is _ABSENT:
                self._values.pop(name, None)
            else:
                self._values[name] = value  # type: ignore[assignment]
        if self._order is not None:
            self._values = {name: self._values[name] for name in self._order}
        self.begin()

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __setitem__(self, name: str, value: Value) -> None:
        self._before.setdefault(name, self._values.get(name, _ABSENT))
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        if self._order is None:
            self._order = [name for name in self._values if self._before.get(name) is not _ABSENT]
        self._before.setdefault(name, self._values[name])
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values
