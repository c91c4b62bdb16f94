"""Put two calls into a function without adding a frame: same object, same lines, same tracebacks.

A wrapper would show in every traceback the job prints and in every stack we read, would lose callers that imported
the name earlier, and would break code that compares functions (`P2POp`, Dynamo's table of collectives). So the
function keeps its identity and gets new code: its own source, with `enter` before and `leave` after the body.
Enters: a Python function with source. Leaves: True when spliced, False when it cannot be (then nothing changed).
Never here: anything about torch.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import types
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ddetect_probe import state

_numbers = itertools.count()
_spliced: List[Tuple[Any, types.CodeType, types.CodeType]] = []  # function, its own code, and ours

_AROUND = """
try:
    {token} = {enter}({params})
except Exception as {token}_error:
    {token} = None
    {broken}({token}_error)
try:
    pass
finally:
    try:
        {leave}({token})
    except Exception as {token}_error:
        {broken}({token}_error)
"""


def splice(
    function: Any,
    enter: Callable[..., Any],
    leave: Callable[[Any], None],
    params: Sequence[str] = (),
    result: Optional[Callable[[Any, Any], Any]] = None,
) -> bool:
    """Call `enter(*params)` before the body, `leave(token)` after it; `result(token, value)` sees what is returned.

    The first exception of ours takes the original code back and is counted; an exception that a signal handler
    raised while we ran is the job's own and goes on.
    """
    target = inspect.unwrap(function)
    original = getattr(target, "__code__", None)
    if original is None or original.co_freevars or getattr(target, "__closure__", None):
        return False
    names = f"_ddetect_{next(_numbers)}"

    def broken(error: BaseException) -> None:
        if not state.ours(error):
            raise error
        target.__code__ = original
        state.broken(original.co_name)

    try:
        spliced = _compile(original, names, params, result is not None)
    except (OSError, SyntaxError, TypeError, ValueError, LookupError):
        return False
    target.__globals__.update(
        {
            f"{names}_enter": enter,
            f"{names}_leave": leave,
            f"{names}_broken": broken,
            f"{names}_result": result,
        }
    )
    target.__code__ = spliced
    _spliced.append((target, original, spliced))
    return True


def switch(on: bool) -> None:
    """Take every hook out of its function, or put it back: to measure what they cost, in one process."""
    for target, original, spliced in _spliced:
        target.__code__ = spliced if on else original


def nothing(token: Any) -> None:
    """For who has nothing to do when a function is left."""


def _compile(code: types.CodeType, names: str, params: Sequence[str], wants_result: bool) -> types.CodeType:
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    missing = [name for name in params if name not in known]
    if missing:
        raise LookupError(f"{code.co_name} has no parameter {missing[0]}")
    lines, first = inspect.getsourcelines(code)
    indented = lines[0][:1].isspace()
    tree = ast.parse(("if 1:\n" if indented else "") + "".join(lines))
    ast.increment_lineno(tree, first - (2 if indented else 1))
    definition = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise LookupError(f"{code.co_name} is not a plain function")
    body = definition.body
    has_doc = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    head, rest = (body[:1], body[1:]) if has_doc else ([], body)
    if not rest:
        raise LookupError(f"{code.co_name} has no body")
    if wants_result:
        rest = [_Returns(names).visit(statement) for statement in rest]
    around = ast.parse(
        _AROUND.format(
            token=f"{names}_token", enter=f"{names}_enter", leave=f"{names}_leave", broken=f"{names}_broken",
            params=", ".join(params),
        )
    ).body  # fmt: skip
    for statement in around:
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                ast.copy_location(node, rest[0])
    guard = around[1]
    assert isinstance(guard, ast.Try)
    guard.body = rest
    definition.body = [*head, *around]
    module = compile(ast.fix_missing_locations(tree), code.co_filename, "exec", code.co_flags & _FUTURE, True)
    spliced = next(
        found
        for found in module.co_consts
        if isinstance(found, types.CodeType) and found.co_name == code.co_name
    )
    if spliced.co_freevars or spliced.co_argcount != code.co_argcount:
        raise LookupError(f"{code.co_name} does not compile to the same function")
    qualified = getattr(code, "co_qualname", None)
    return spliced.replace(**({"co_qualname": qualified} if qualified else {}))


class _Returns(ast.NodeTransformer):
    """Pass every returned value through `result`, leaving nested functions alone."""

    def __init__(self, names: str) -> None:
        self._names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None:
            return node
        call = ast.Call(
            func=ast.Name(id=f"{self._names}_result", ctx=ast.Load()),
            args=[ast.Name(id=f"{self._names}_token", ctx=ast.Load()), node.value],
            keywords=[],
        )
        node.value = ast.copy_location(call, node.value)
        return ast.fix_missing_locations(node)


_FUTURE = 0x1000000  # from __future__ import annotations; the others are part of the language by now
