"""Einstein sums: a string such as 'ij,jk->ik' -> products of pairs of arrays, in a cheap order.

`_plan` turns the string and the shapes into steps, and is cached. A step multiplies two arrays by
one `dot_general`; sums and diagonals of single arrays come before.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import opt_einsum
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Size
from kiln.numpy.creation.arrays import cast
from kiln.numpy.creation.matrices import diagonal
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.promotion import one, promote_dtypes
from kiln.numpy.promotion import operands as array_operands
from kiln.ops.linear import contraction
from kiln.ops.out_sharding import sharded
from kiln.ops.reductions import reduction
from kiln.ops.shape import reduce_sum, squeeze, transpose
from kiln.ops.sharding import auto


class _Step(NamedTuple):
    """Remove the operands at `places` from the list, and append their product."""

    places: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str


@eager
def einsum(
    subscripts: Any,
    /,
    *operands: ArrayLike,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply arrays and sum over axes, as the Einstein summation `subscripts` specifies.

    Each operand has one letter per axis; letters missing after `->` are summed over. Without `->`
    the result has the letters that occur once, in alphabetical order. `...` stands for broadcast
    axes. `optimize` chooses the order of products of several `operands`; `preferred_element_type`
    is the dtype in which products are summed, and of the result. `precision` has no effect on CPUs;
    `out` must be None.

    Raises: ValueError if subscripts and shapes do not match.
    Source: numpy.einsum; the order of products is chosen by opt_einsum.
    Example:
        >>> a, b = jnp.arange(6.0).reshape(2, 3), jnp.ones((3, 2))
        >>> jnp.einsum("ij,jk->ik", a, b)
        Array([[ 3.,  3.],
               [12., 12.]], dtype=float32)
        >>> jnp.einsum("ij->i", a)
        Array([ 3., 12.], dtype=float32)
    """
    refuse_out("einsum", out)
    arrays, steps = _planned("einsum", subscripts, operands, optimize)
    arrays = list(promote_dtypes(*arrays))
    if out_sharding is not None:
        arrays = [auto(x) for x in arrays]
    preferred = (
        None
        if preferred_element_type is None
        else dtypes.check_user_dtype(preferred_element_type, "einsum")
    )
    product = _dot_general or contraction.dot_general
    for step in steps:
        chosen = [arrays.pop(place) for place in step.places]
        arrays.append(_apply(step, chosen, precision, preferred, product))
    (result,) = arrays
    return sharded(result if preferred is None else cast(result, preferred), out_sharding, "einsum")


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> Any:
    """Return the order in which `einsum` would multiply, and its description.

    Example:
        >>> a, b, c = jnp.ones((2, 50)), jnp.ones((50, 50)), jnp.ones((50, 3))
        >>> jnp.einsum_path("ij,jk,kl->il", a, b, c)[0]
        [(0, 1), (0, 1)]
    """
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else _left_to_right(len(operands))
    return opt_einsum.contract_path(
        subscripts,
        *[np.broadcast_to(np.float32(0), np.shape(x)) for x in operands],
        optimize=optimize,
    )


def _left_to_right(count: int) -> Sequence[tuple[int, ...]]:
    """Return the path that multiplies two operands, then the result with the third, ..."""
    if count < 2:
        return [(0,)]
    return [(0, 1)] + [(0, left) for left in range(count - 2, 0, -1)]


def _planned(
    name: str, subscripts: Any, operands: Sequence[Any], optimize: Any
) -> tuple[list[Any], tuple[_Step, ...]]:
    if isinstance(subscripts, str):
        arrays = [one(name, x) for x in array_operands(name, *operands)]
        text = subscripts
    else:
        # Arrays alternate with lists of numbers; the list left over is the output.
        given = [subscripts, *operands]
        output = given.pop() if len(given) % 2 else None
        arrays = [one(name, x) for x in array_operands(name, *given[::2])]
        text = ",".join(map(_letters, given[1::2]))
        if output is not None:
            text += "->" + _letters(output)
    shapes = tuple(tuple(x.shape) for x in arrays)
    order = tuple(map(tuple, optimize)) if isinstance(optimize, (list, tuple)) else optimize
    return arrays, _plan(text, shapes, order)


def _letters(labels: Sequence[Any]) -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "".join("..." if label is Ellipsis else alphabet[label] for label in labels)


_ONE_LETTER = "name each axis of each operand by one letter"


def _wrong(text: str, shapes: Any, wrong: str, use: str = _ONE_LETTER) -> ValueError:
    return ValueError(
        three_lines(
            f"einsum({text!r}) of arrays of shapes {', '.join(map(str, shapes))} "
            f"at {current_source()}",
            wrong,
            use,
        )
    )


@functools.lru_cache(maxsize=4096)
def _plan(text: str, shapes: tuple[tuple[Any, ...], ...], optimize: Any) -> tuple[_Step, ...]:
    inputs, output = _parsed(text, shapes)
    sizes: dict[str, Any] = {}
    for names, shape in zip(inputs, shapes, strict=True):
        if len(names) != len(shape):
            raise _wrong(text, shapes, f"operand {names!r} has {len(shape)} axes, not {len(names)}")
        for name, size in zip(names, shape, strict=True):
            known = sizes.setdefault(name, size)
            if known != size:
                if known != 1 and size != 1:
                    raise _wrong(
                        text,
                        shapes,
                        f"Size of label '{name}' for one operand ({known}) does not match "
                        f"another ({size}).",
                        f"give the axes called {name!r} one size, or call them by two letters",
                    )
                sizes[name] = size if known == 1 else known
    unknown = [name for name in output if name not in sizes]
    if unknown or len(set(output)) != len(output):
        raise _wrong(text, shapes, f"output {output!r} has letters that are unknown or repeated")
    current = list(inputs)
    steps: list[_Step] = []
    for places in _order(text, inputs, output, sizes, optimize):
        chosen = tuple(sorted(places, reverse=True))
        taken = [current.pop(place) for place in chosen]
        rest = set(output).union(*map(set, current))
        if not current:
            result = output
        else:
            seen = dict.fromkeys("".join(reversed(taken)))
            result = "".join(name for name in seen if name in rest)
        # Operands are removed from last to first, but multiplied in the user's order.
        steps.append(_Step(chosen, tuple(taken), result))
        current.append(result)
    return tuple(steps)


def _parsed(text: str, shapes: tuple[tuple[Any, ...], ...]) -> tuple[list[str], str]:
    text = text.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        raise _wrong(text, shapes, f"{len(inputs)} groups of letters for {len(shapes)} operands")
    if any(not (c.isalnum() or c in ".,->") for c in text):
        raise _wrong(text, shapes, "only letters, digits, '...', ',' and '->' have a meaning")
    if "." in text:
        free = [c for c in map(chr, range(ord("α"), ord("α") + 64)) if c not in text]
        longest = 0
        for i, (names, shape) in enumerate(zip(inputs, shapes, strict=True)):
            if "..." not in names:
                continue
            count = len(shape) - (len(names) - 3)
            if count < 0:
                raise _wrong(text, shapes, f"operand {names!r} has only {len(shape)} axes")
            longest = max(longest, count)
            inputs[i] = names.replace("...", "".join(free[-count:] if count else []), 1)
        dots = "".join(free[-longest:] if longest else [])
        output = output.replace("...", dots, 1)
        if not arrow:
            output = dots
    if not arrow:
        letters = "".join(inputs)
        output += "".join(
            sorted(c for c in set(letters) if letters.count(c) == 1 and c not in output)
        )
    return inputs, output


def _order(text: str, inputs: list[str], output: str, sizes: dict[str, Any], optimize: Any) -> Any:
    if len(inputs) <= 2:
        return [tuple(range(len(inputs)))]
    if optimize is False:
        return _left_to_right(len(inputs))
    if isinstance(optimize, tuple):
        return [tuple(places) for places in optimize if places and not isinstance(places[0], str)]
    # A named size takes part in the search for a cheap order as some large number.
    numbers = {name: 1009 if isinstance(size, Size) else size for name, size in sizes.items()}
    shapes = [tuple(numbers[name] for name in names) for names in inputs]
    how = "optimal" if optimize is True else optimize
    path, _ = opt_einsum.contract_path(
        ",".join(inputs) + "->" + output, *shapes, shapes=True, optimize=how
    )
    return path


def _apply(step: _Step, arrays: list[Any], precision: Any, preferred: Any, product: Any) -> Any:
    if len(arrays) == 1:
        x, names = _alone(arrays[0], step.inputs[0], set(step.output))
        return _ordered(x, names, step.output)
    if len(arrays) > 2:
        (last, *others), (last_names, *other_names) = arrays, step.inputs
        rest = set(step.output) | set(last_names)
        names = "".join(n for n in dict.fromkeys("".join(other_names)) if n in rest)
        inner = _Step((), tuple(other_names), names)
        merged = _apply(inner, list(others), precision, preferred, product)
        return _apply(
            _Step((), (last_names, names), step.output),
            [last, merged],
            precision,
            preferred,
            product,
        )
    y, x = arrays
    y_names, x_names = step.inputs
    x, x_names, y, y_names = _stretched(x, x_names, y, y_names)
    x, x_names = _alone(x, x_names, set(y_names) | set(step.output))
    y, y_names = _alone(y, y_names, set(x_names) | set(step.output))
    shared = [name for name in x_names if name in y_names]
    batch = [name for name in shared if name in step.output]
    over = [name for name in shared if name not in step.output]
    numbers = (
        ([x_names.index(n) for n in over], [y_names.index(n) for n in over]),
        ([x_names.index(n) for n in batch], [y_names.index(n) for n in batch]),
    )
    wanted = aval_of(x).dtype if preferred is None else preferred
    free_x = [n for n in x_names if n not in shared]
    free_y = [n for n in y_names if n not in shared]
    if _swapped(batch, free_x, free_y, step.output):
        (over_x, over_y), (batch_x, batch_y) = numbers
        out = product(
            y, x, ((over_y, over_x), (batch_y, batch_x)), precision, preferred_element_type=wanted
        )
        names = "".join([*batch, *free_y, *free_x])
    else:
        out = product(x, y, numbers, precision, preferred_element_type=wanted)
        names = "".join([*batch, *free_x, *free_y])
    return _ordered(out, names, step.output)


def _swapped(batch: list[str], free_x: list[str], free_y: list[str], output: str) -> bool:
    """Tell whether multiplying in the other order gives the axes in the required order."""
    return "".join([*batch, *free_y, *free_x]) == output != "".join([*batch, *free_x, *free_y])


def _stretched(x: Any, x_names: str, y: Any, y_names: str) -> tuple[Any, str, Any, str]:
    """Drop axes of size 1 that match longer ones of the other operand."""
    sides = []
    for a, a_names, b, b_names in ((x, x_names, y, y_names), (y, y_names, x, x_names)):
        short = [
            i
            for i, name in enumerate(a_names)
            if a.shape[i] == 1 and name in b_names and b.shape[b_names.index(name)] != 1
        ]
        kept = "".join(name for i, name in enumerate(a_names) if i not in short)
        sides.append((squeeze(a, short), kept))
    (x, x_names), (y, y_names) = sides
    return x, x_names, y, y_names


def _alone(x: Any, names: str, wanted: set[str]) -> tuple[Any, str]:
    """Take diagonals of repeated names, and sum over names that occur nowhere else."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            x = diagonal(x, 0, first, second)
            names = "".join(n for i, n in enumerate(names) if i not in (first, second)) + name
    lonely = tuple(i for i, name in enumerate(names) if name not in wanted)
    if lonely:
        bools = aval_of(x).dtype == np.bool_
        x = reduction.reduce_or(x, lonely) if bools else reduce_sum(x, lonely)
        names = "".join(n for i, n in enumerate(names) if i not in lonely)
    return x, names


def _ordered(x: Any, names: str, output: str) -> Any:
    return transpose(x, [names.index(name) for name in output])
