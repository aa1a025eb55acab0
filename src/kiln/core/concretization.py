"""Errors for using a traced value as a concrete one."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from kiln.base.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    three_lines,
)
from kiln.base.source import Source, current_source
from kiln.ir.types import ShapedArray

_CLASSES: dict[str, type[Exception]] = {
    "bool": TracerBoolConversionError,
    "__index__": TracerIntegerConversionError,
    "__array__": TracerArrayConversionError,
}


_SAID = {
    "bool": "Attempted boolean conversion of traced array",
    "__index__": "The __index__() method was called on traced array",
    "tolist": "The tolist() method was called on traced array",
    "tobytes": "The tobytes() method was called on traced array",
    "__array__": "The numpy.ndarray conversion method __array__() was called on traced array",
}
"""What happened, in the words of JAX."""


def refuse(tracer: Any, conversion: str, remedy: str | None = None) -> NoReturn:
    """Raise the error for converting a traced value by the function `conversion`."""
    tracer = tracer.abstract()
    source = current_source()
    arguments = tracer.owner.responsible(tracer)
    error = _CLASSES.get(conversion, ConcretizationTypeError)
    said = f"{_SAID[conversion]} with shape {tracer.aval}. " if conversion in _SAID else ""
    raise error(
        three_lines(
            f"Abstract tracer value encountered where concrete value is expected: "
            f"{tracer!r}. {said}The problem arose with the `{conversion}` function at {source}, "
            f"{tracer.owner.describe()}.{_because(arguments)}",
            "a traced value has a shape and a dtype but no value: the program is being recorded "
            "for all values at once",
            remedy or _remedy(conversion, arguments, source),
        )
    )


def dependence(tracer: Any) -> tuple[str, str]:
    """Return where a value is traced and what it depends on, and the option that makes it known."""
    tracer = tracer.abstract()
    arguments = tracer.owner.responsible(tracer)
    scalars = [name for name, aval in arguments if not aval.shape and name.isidentifier()]
    static = repr(scalars) if scalars else "..."
    return f"{tracer.owner.describe()}.{_because(arguments)}", f"static_argnames={static}"


def refuse_keys(aval: ShapedArray, asked: str) -> NoReturn:
    """Raise the error for using random keys as numbers in the function `asked`."""
    raise TypeError(
        three_lines(
            f"{asked}() of an array {aval} at {current_source()}",
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Nor to numbers",
            "use kiln.random.key_data(keys) for the integers behind them",
        )
    )


def _because(arguments: Sequence[tuple[str, Any]]) -> str:
    if not arguments:
        return " The value does not depend on the arguments of the function being traced."
    names = [name for name, _ in arguments]
    listed = (
        f"argument {names[0]}"
        if len(names) == 1
        else f"arguments {', '.join(names[:-1])} and {names[-1]}"
    )
    return (
        f" This concrete value was not available because it depends on the value of the {listed}."
    )


def _remedy(conversion: str, arguments: Sequence[tuple[str, Any]], source: Source | None) -> str:
    text = linecache.getline(source.file, source.line).strip() if source else ""
    return f"{_rewrite(conversion, text)}{_static(arguments)}"


def _rewrite(conversion: str, text: str) -> str:
    if conversion == "bool":
        if text.startswith("while "):
            return "use kiln.lax.while_loop or kiln.lax.fori_loop for a loop on traced values"
        if text.startswith(("if ", "elif ")) or " if " in text:
            return "use kiln.lax.cond, or kiln.numpy.where to choose between two values"
        if re.search(r"\b(and|or|not)\b", text):
            return "use kiln.numpy.logical_and, logical_or or logical_not instead of and, or, not"
        if re.search(r"\b(max|min|sorted)\(", text):
            return "use kiln.numpy.maximum, minimum or sort"
        return "use kiln.numpy.where, kiln.lax.cond or kiln.numpy.logical_and/or/not"
    if conversion == "__index__":
        if "range(" in text:
            return "use kiln.lax.fori_loop for a loop with a traced bound"
        return "index a kiln.numpy array, or use kiln.lax.dynamic_slice / dynamic_index_in_dim"
    if conversion == "__array__":
        name = _numpy_name(text)
        return f"use {name} instead of NumPy's function" if name else "use kiln.numpy functions"
    if conversion in ("int", "float", "complex"):
        return f"Try using `x.astype({conversion})` to keep an array, or compute it outside"
    return "keep the value as an array, or compute it outside the traced function"


def _numpy_name(text: str) -> str | None:
    found = re.search(r"\b(?:np|numpy|onp)\.([a-z_0-9.]+)\(", text)
    return f"kiln.numpy.{found.group(1)}" if found else None


def _static(arguments: Sequence[tuple[str, Any]]) -> str:
    scalars = [name for name, aval in arguments if not aval.shape and name.isidentifier()]
    if not scalars or len(scalars) != len(arguments):
        return ""
    return f"; or mark the argument static: jit(..., static_argnames={scalars!r})"
