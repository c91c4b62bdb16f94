"""Call somebody when a module has been imported, without importing it.

Enters: a module's name. Leaves: one call right after its body ran. Never here: a change to how the module is found or
loaded; a frame of ours under its body (a warning it gives, or an import that fails, must read as without us).
"""

from __future__ import annotations

import functools
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Optional, Sequence


def after_import(name: str, call: Callable[[], None]) -> None:
    """Call `call` when `name` has been imported; at once if it already was."""
    if name in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder(MetaPathFinder):
    """Finds nothing itself: it asks the others, and steps aside when it has seen its module."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name = name
        self._call = call

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find: Any = getattr(finder, "find_spec", None)
            spec: Optional[ModuleSpec] = find(fullname, path, target) if find is not None else None
            if spec is not None:
                try:
                    _watch(spec.loader, fullname, self._call)
                except (
                    TypeError,
                    AttributeError,
                ):  # an unusual loader: torch's entry point is the other way in
                    pass
                return spec
        return None


class _Execute(functools.partial):  # type: ignore[type-arg]
    """A loader's exec_module for the length of one call: C code, so it has no frame; its end is ours to see."""

    over: Callable[[], None]

    def __del__(self) -> None:
        self.over()


def _watch(loader: Any, name: str, call: Callable[[], None]) -> None:
    """Give this one loader a class whose exec_module says when it is over; afterwards its own class again."""
    plain = type(loader)

    def over() -> None:
        module = sys.modules.get(name)
        if len(getattr(module, "__dict__", ())) > _BARE and type(loader) is not plain:  # not just looked at
            loader.__class__ = plain
            call()

    def exec_module(self: Any) -> _Execute:
        execute = _Execute(plain.exec_module, self)
        execute.over = over
        return execute

    loader.__class__ = type(plain.__name__, (plain,), {"exec_module": property(exec_module)})


_BARE = 12  # names that a module has before its body ran
