"""Call somebody when a module has been imported, without importing it.

Enters: a module's name. Leaves: one call right after it was imported. Never here: a change to how the module is found
or loaded; a frame of ours under its body (a warning it gives, or an import that fails, must read as without us);
`typing` and `importlib.abc`, which would cost every Python of the job 20 ms and more.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional, Sequence


def after_import(name: str, call: Callable[[], None]) -> None:
    """Call `call` when `name` has been imported; at once if it already was."""
    if name in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder:
    """Finds nothing itself: it asks the others, and steps aside once its module is there."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name = name
        self._call = call
        self._asking = False
        self._called = False

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname != self._name or self._asking:
            return None
        self._asking = True
        try:
            for finder in list(sys.meta_path):
                find: Any = getattr(finder, "find_spec", None)
                spec: Optional[ModuleSpec] = find(fullname, path, target) if find is not None else None
                if spec is not None:
                    self._watch(spec)
                    return spec
        finally:
            self._asking = False
        return None

    def _watch(self, spec: Any) -> None:
        """Give this one spec a class that hears the import end; afterwards its own class again.

        importlib's last act, for an import that fails too, is to say on the spec that it is not under way any more.
        A module whose body raised is out of sys.modules by then. What a call of ours lets through (Ctrl-C) rises from
        the import statement.
        """
        plain = type(spec)

        def __setattr__(spec: Any, name: str, value: object) -> None:
            object.__setattr__(spec, name, value)
            if name == "_initializing" and not value:
                spec.__class__ = plain
                if self._name in sys.modules and not self._called:
                    self._called = True
                    if self in sys.meta_path:
                        sys.meta_path.remove(self)
                    self._call()

        try:
            spec.__class__ = type(plain.__name__, (plain,), {"__setattr__": __setattr__})
        except (TypeError, AttributeError):  # an unusual spec: a framework's entry point is the other way in
            pass
