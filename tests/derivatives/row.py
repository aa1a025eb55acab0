"""A row of the table of derivatives: an expression with the names of one module.

In an expression single letters are operands (see `operands`), other names those of the module, and
`M` the module, `jax`, `jnp`, `lax`, `np` what they are everywhere. The row is about the function
that is called last, or about that before a colon. Marks come first:

- `~`: the operands are complex as well, in a second row.
- `!`: there is a first derivative and an error instead of a second; `!!`: not even a first.
- `>`: there is an error instead of derivatives in reverse.
- `*`: the derivative is not that of the samples that are drawn, but of the quantile of each.
- `^`: the function computes in 32 bits whatever its operands are.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import kiln
from tests.derivatives.operands import SHAPES, operand
from tests.differential.oracle import NotProvided


@dataclasses.dataclass(frozen=True)
class Row:
    """An expression about `subject`, a public name below the module."""

    module: str
    subject: str
    text: str
    complex_numbers: bool = False
    order: int = 2
    forward_only: bool = False
    implicit: bool = False
    bits: int = 64

    @property
    def id(self) -> str:
        """The name of the row, as pytest shows it."""
        return f"{self.module}: {self.text}" + (" (complex)" if self.complex_numbers else "")

    @property
    def name(self) -> str:
        """The public name that the row is about."""
        return f"{self.module}.{self.subject}"

    @property
    def letters(self) -> tuple[str, ...]:
        """The operands, in alphabetic order."""
        return tuple(n for n in sorted(_names(self.text)) if n in SHAPES)

    def operands(self, point: int = 0) -> list[np.ndarray]:
        """Draw the operands of one point."""
        seed = f"{self.text} {point}"
        return [operand(letter, seed, self.complex_numbers) for letter in self.letters]

    def function(self, lib: Any) -> Callable[..., list[Any]]:
        """Return the expression with the names of a library, as a function of the operands.

        Its results are those with derivatives: floats and complex numbers.
        """
        known = known_names(lib, self.module)
        absent = sorted((_names(self.text) & set(known_names(kiln, self.module))) - set(known))
        if absent:
            raise NotProvided(f"{lib.__name__}.{self.module} has no {', '.join(absent)}")
        wanted = {n: known[n] for n in _names(self.text) if n in known}
        source = f"lambda {', '.join(self.letters)}: ({self.text})"
        fun = eval(source, {**wanted, "__builtins__": {**_BUILTINS}})

        def results(*xs: Any) -> list[Any]:
            return [y for y in lib.tree.leaves(fun(*xs)) if _is_inexact(y)]

        return results


_BUILTINS = {f.__name__: f for f in (abs, dict, float, int, len, range, slice, sum, tuple, zip)}


def _is_inexact(y: Any) -> bool:
    return getattr(getattr(y, "dtype", None), "kind", "") in "fc"


@functools.cache
def _names(text: str) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name))


@functools.cache
def known_names(lib: ModuleType, module: str) -> dict[str, Any]:
    """Return the names that the expressions of a module may use."""
    found = importlib.import_module(f"{lib.__name__}.{module}")
    return {
        **{n: getattr(found, n) for n in dir(found) if not n.startswith("_") and n not in SHAPES},
        "M": found,
        "jax": lib,
        "jnp": importlib.import_module(f"{lib.__name__}.numpy"),
        "lax": importlib.import_module(f"{lib.__name__}.lax"),
        "np": np,
        "key": lib.random.key(7),
        "dims": dimensions,
    }


def dimensions(
    form: str, offset: Sequence[int], collapsed: Sequence[int], mapped: Sequence[int]
) -> dict[str, Any]:
    """Return the three tuples that gathers and scatters are told, under their names."""
    first, second = {
        "gather": ("offset_dims", "collapsed_slice_dims"),
        "scatter": ("update_window_dims", "inserted_window_dims"),
    }[form]
    last = "start_index_map" if form == "gather" else "scatter_dims_to_operand_dims"
    return {first: tuple(offset), second: tuple(collapsed), last: tuple(mapped)}


def rows(module: str, text: str) -> Iterable[Row]:
    """Return the rows of a module: one expression a line."""
    for line in filter(None, map(str.strip, text.splitlines())):
        plain = line.lstrip("~!>*^")
        marks = line[: -len(plain)]
        subject, colon, rest = plain.partition(": ")
        if not colon or not subject.replace(".", "").isidentifier():
            subject, rest = _called(plain), plain
        for complex_numbers in (False, True) if "~" in marks else (False,):
            yield Row(
                module,
                subject,
                rest,
                complex_numbers,
                order=2 - marks.count("!"),
                forward_only=">" in marks,
                implicit="*" in marks,
                bits=32 if "^" in marks else 64,
            )


def _called(text: str) -> str:
    body = ast.parse(text, mode="eval").body
    assert isinstance(body, ast.Call), f"say what this row is about: {text}"
    return ast.unparse(body.func).removeprefix("M.")
