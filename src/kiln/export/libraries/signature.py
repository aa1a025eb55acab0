"""What C sees of a function: its parameters, and structures with the names of trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import keystr, tree_flatten_with_path
from kiln.core.engines.linking import Leaf, Parameter
from kiln.export.libraries.c_types import c_type, identifier
from kiln.ir.analysis import aliasing
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.jit.stages.traced import Traced
from kiln.jit.stages.whole_program import DividedProgram


class Array(Record):
    """An array that a call takes by address: its place in the tree, its C type, its shape."""

    path: str
    name: str
    type: str
    dtype: str
    shape: tuple[Dim, ...]
    item: int
    leaf: Leaf

    @property
    def is_written(self) -> bool:
        """Whether a call writes it."""
        return self.leaf.result is not None

    @property
    def elements(self) -> Dim:
        """How many elements it has."""
        return math.prod(self.shape)


class Struct(Record):
    """A structure of addresses, with the names of a tree."""

    name: str
    fields: tuple[Array | Struct, ...]


class Argument(Record):
    """A parameter of a C function: an array, or a structure whose type has a name."""

    name: str
    value: Array | Struct
    type_name: str = ""


class Signature(Record):
    """A function as C sees it."""

    symbol: str
    fun_name: str
    sizes: tuple[str, ...]
    arguments: tuple[Argument, ...]

    def parameters(self) -> tuple[Parameter, ...]:
        """Return its parameters as the engine links them."""
        return tuple(
            [
                Parameter(tuple([a.leaf for a in arrays_in(arg.value)]), bool(arg.type_name))
                for arg in self.arguments
            ]
        )


def arrays_in(value: Array | Struct) -> Iterator[Array]:
    """Yield the arrays of a structure, in order."""
    if isinstance(value, Array):
        yield value
        return
    for field in value.fields:
        yield from arrays_in(field)


def signature_of(symbol: str, prefix: str, traced: Traced, divided: DividedProgram) -> Signature:
    """Return the signature of a traced function.

    Raises: NotImplementedError for arrays whose elements C has no type for.
    """
    program = divided.program
    constants = len(divided.constants)
    operand_of = {leaf: constants + i for i, leaf in enumerate(divided.arguments)}
    reused = aliasing.reused(program.jaxpr, program.donated)
    taken = {*program.sizes}
    result_avals = [v.aval for v in program.jaxpr.outvars]

    def array(path: str, name: str, aval: ShapedArray, leaf: Leaf) -> Array:
        physical = aval.physical()
        kind = c_type(physical.dtype, prefix)
        if kind is None:
            raise NotImplementedError(
                three_lines(
                    f"library {prefix} of {traced.fun_name} with {path} of type {aval} "
                    f"at {current_source()}",
                    f"C has no type for elements of {physical.dtype}",
                    "convert it inside the function, from and to int8 or float32 for example",
                )
            )
        item = int(physical.dtype.itemsize)
        return Array(path, name, kind, str(physical.dtype), physical.shape, item, leaf)

    leaves = iter(range(1 << 30))

    def argument_leaf() -> Leaf:
        operand = operand_of.get(next(leaves))
        return Leaf(operand, None if operand is None else reused.get(operand))

    arguments: list[Argument] = []
    args, kwargs = traced.in_avals
    named = [
        *zip(_positional(traced, len(args)), args, strict=True),
        *sorted(kwargs.items()),
    ]
    for name, tree in named:
        arguments += _arguments(symbol, name, name, tree, array, argument_leaf, taken)
    in_place = {a.leaf.result for arg in arguments for a in arrays_in(arg.value)}
    results = iter(range(len(result_avals)))

    def result_leaf() -> Leaf | None:
        number = next(results)
        return None if number in in_place else Leaf(None, number)

    out = traced.out_avals
    is_tuple = type(out) in (tuple, list)
    parts = enumerate(out) if is_tuple else [("", out)]
    for number, tree in parts:
        path = f"result[{number}]" if is_tuple else "result"
        arguments += _arguments(symbol, f"out{number}", path, tree, array, result_leaf, taken)
    return Signature(symbol, traced.fun_name, program.sizes, tuple(arguments))


def _positional(traced: Traced, count: int) -> list[str]:
    names = [*traced.parameter_names[:count]]
    return names + [f"arg{i}" for i in range(len(names), count)]


MakeArray = Callable[[str, str, ShapedArray, Leaf], Array]


def _arguments(
    symbol: str,
    name: str,
    path: str,
    tree: Any,
    array: MakeArray,
    leaf: Callable[[], Leaf | None],
    taken: set[str],
) -> Sequence[Argument]:
    """Return a tree as at most one parameter: none if it has no arrays to take."""
    own = identifier(name, taken)
    value = _value(own, path, tree, array, leaf)
    if value is None:
        return ()
    return [Argument(own, value, f"{symbol}_{own}" if isinstance(value, Struct) else "")]


def _value(
    name: str, path: str, tree: Any, array: MakeArray, leaf: Callable[[], Leaf | None]
) -> Array | Struct | None:
    if isinstance(tree, ShapedArray):
        place = leaf()
        return None if place is None else array(path, name, tree, place)
    children = tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)[0]
    fields, taken = [], set[str]()
    for (key,), child in children:
        simple = keystr((key,), simple=True)
        own = identifier(f"item{simple}" if simple.isdigit() else simple, taken)
        value = _value(own, f"{path}{keystr((key,))}", child, array, leaf)
        if value is not None:
            fields.append(value)
    return Struct(name, tuple(fields)) if fields else None
