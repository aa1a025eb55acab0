"""Named sizes as text that JAX reads, and the parser of such text.

The operations are `+ - *`, `^` with a number, and floordiv, mod, max, min of two sizes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import repeat
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.ir.sizes.facts import Facts
from kiln.ir.sizes.size import Dim, Size, maximum, minimum, symbol

_HIGHEST_POWER = 64
_MOST_TERMS = 4096
_LARGEST = 1 << 64
"""Limits on the size of an expression, whose text may come from an untrusted file."""
_TOO_DEEP = "the expression is nested deeper than Python can parse"


def _product(a: Dim, b: Dim) -> Dim:
    terms = [len(each.terms) if type(each) is Size else 1 for each in (a, b)]
    found: Dim = a * b if terms[0] * terms[1] <= _MOST_TERMS else _LARGEST
    if type(found) is int and abs(found) >= _LARGEST:
        raise _TooLargeError
    return found


def _power(a: Dim, b: Dim) -> Dim:
    if type(b) is not int or not 0 <= b <= _HIGHEST_POWER:
        raise _TooLargeError
    one: Dim = 1
    return reduce(_product, repeat(a, b), one)


class _TooLargeError(ValueError):
    """A size with too many terms, a number of too many bits, or too high a power."""


_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": maximum,
    "min": minimum,
}
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: _product,
    ast.Pow: _power,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def size_text(dim: Dim) -> str:
    """Return a size as text, such as `2*b + -1` or `floordiv(b, 2)`.

    `dim` is a number, or a size of named axes.
    """
    if type(dim) is not Size:
        return str(dim)
    return " + ".join([_term(monomial, factor) for monomial, factor in dim.terms])


def _term(monomial: Sequence[Any], factor: int) -> str:
    atoms = [_atom(atom) for atom in monomial]
    return "*".join(atoms if factor == 1 and atoms else [str(factor), *atoms])


def _atom(atom: tuple[Any, ...]) -> str:
    kind = atom[0]
    if kind == "name":
        return str(atom[1])
    if kind == "floordiv":
        return f"floordiv({size_text(atom[1])}, {size_text(atom[2])})"
    return reduce(lambda a, b: f"max({a}, {b})", map(size_text, atom[1]))


def shape_of_text(
    spec: str, like: Sequence[Any] | None, what: str, facts: Facts | None = None
) -> tuple[Dim, ...]:
    """Parse a shape such as `(b, 2*b, ...)`; `facts` apply to its names.

    `_` stands for the size in `like` at the same axis, `...` for its remaining sizes.

    Raises: ValueError for other text, at the position of the error.
    """
    dims: list[Dim] = []
    entries = _entries(spec, what)
    for node in entries:
        if isinstance(node, ast.Constant) and node.value is ...:
            if node is not entries[-1]:
                raise _refused(what, "'...' stands for the rest of the shape and must come last")
            dims.extend(_like(like, len(dims), None, what))
        elif isinstance(node, ast.Name) and node.id == "_":
            dims.extend(_like(like, len(dims), 1, what))
        else:
            try:
                dims.append(_size(node, what, facts))
            except _TooLargeError:
                wrong = f"a size has more than {_MOST_TERMS} terms or 64 bits, or a power that is "
                raise _refused(
                    what, f"{wrong}not in the range from 0 to {_HIGHEST_POWER}"
                ) from None
            except ZeroDivisionError as error:
                raise _refused(what, str(error)) from None
            except RecursionError:
                raise _refused(what, _TOO_DEEP) from None
            known = like[len(dims) - 1] if like and len(dims) <= len(like) else None
            if type(dims[-1]) is int and known is not None and known != dims[-1]:
                raise _refused(what, f"axis {len(dims) - 1} has the size {known}, not {dims[-1]}")
    return tuple(dims)


def _entries(spec: str, what: str) -> list[ast.expr]:
    text = spec.strip()
    if not text:
        return []
    try:
        body = ast.parse(text.replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise _refused(what, f"syntax error in symbolic shape: {error}") from None
    except (MemoryError, RecursionError):
        # Which one depends on the version of Python.
        raise _refused(what, _TOO_DEEP) from None
    return body.elts if isinstance(body, ast.Tuple) else [body]


def _like(like: Sequence[Any] | None, at: int, count: int | None, what: str) -> list[Dim]:
    if like is None:
        raise _refused(what, "it has a placeholder, but no shape to take the size from")
    found = list(like[at:]) if count is None else list(like[at : at + count])
    if count is not None and not found:
        raise _refused(what, f"axis {at} is a placeholder, and the array has {len(like)} axes")
    return found


def _size(node: ast.expr, what: str, facts: Facts | None) -> Dim:
    found: Any = None
    if isinstance(node, ast.Constant) and type(node.value) is int:
        found = node.value
    elif isinstance(node, ast.Name):
        found = symbol(node.id, facts)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = -_size(node.operand, what, facts)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
        found = _size(node.operand, what, facts)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = (_size(each, what, facts) for each in (node.left, node.right))
        found = _OPERATORS[type(node.op)](left, right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = _FUNCTIONS.get(node.func.id)
        if function is not None and len(node.args) == 2 and not node.keywords:
            found = function(*[_size(each, what, facts) for each in node.args])
    if not isinstance(found, (int, Size)):
        raise _refused(what, f"syntax error in symbolic shape: {ast.unparse(node)!r} is not a size")
    return found


def _refused(what: str, why: str) -> ValueError:
    return ValueError(
        three_lines(
            f"{what} at {current_source()}",
            why,
            "write sizes as in 'b, 2*b+1, floordiv(b, 2), 8, ...': names, numbers, + - * ^, and "
            "floordiv, mod, max, min of two",
        )
    )
