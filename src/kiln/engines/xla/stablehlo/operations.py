"""MLIR modules -> records of their operations, which need neither jaxlib nor a lock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.engines.xla.stablehlo.text import dtype_of
from kiln.ir.types import ShapedArray

_LITERAL = re.compile(
    r"dense<(.*)> : tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>\s*(?:loc\(.*\))?$", re.DOTALL
)
_NUMBER = re.compile(r"[^\[\](),\s]+")
_IDENTIFIER = re.compile(r"#[\w.]+<(?:[a-z_]+ )?(\w+)>$")
_FIELD = re.compile(r"(\w+) = (\[[^\]]*\]|\w+)")
_NUMBERS = ("#stablehlo.gather<", "#stablehlo.scatter<", "#stablehlo.dot<")


class Unreadable(Exception):
    """A module has a type or constant that kiln has no counterpart for; the text says which."""


class PartialType(NamedTuple):
    """The type of an array some of whose sizes are not written: None."""

    shape: tuple[int | None, ...]
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join('?' if n is None else str(n) for n in self.shape)}]"


Type = ShapedArray | PartialType | str
"""The type of an array, or the text of another type."""


class Region(NamedTuple):
    """A block: its arguments, its operations, the values that its terminator passes on.

    Values are numbers, unique within a module; a region may use those of the regions around it.
    """

    arguments: tuple[int, ...]
    operations: Sequence[Operation]
    returned: tuple[int, ...]


class Operation(NamedTuple):
    """An operation: its name, the numbers of its operands and results, their types."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[Type, ...]
    attributes: Mapping[str, Any]
    regions: tuple[Region, ...]


class Function(NamedTuple):
    """A function of a module; the types are those of its arguments."""

    types: tuple[Type, ...]
    body: Region


def functions_of(ir: Any, module: Any) -> dict[str, Function]:
    """Return the functions of a module by name; call it inside `bindings()`.

    Raises: Unreadable for a constant of a type that kiln lacks.
    """
    reader = _Reader(ir)
    found = {}
    for operation in module.body.operations:
        if operation.operation.name == "func.func":
            name = ir.StringAttr(operation.attributes["sym_name"]).value
            body = operation.regions[0]
            types = tuple([reader.type(argument.type) for argument in body.blocks[0].arguments])
            found[name] = Function(types, reader.region(body))
    return found


class _Reader:
    """Numbers the values of a module as it reads them."""

    def __init__(self, ir: Any) -> None:
        self._ir = ir
        self._numbers: dict[Any, int] = {}
        self._types: dict[Any, Type] = {}

    def region(self, region: Any) -> Region:
        if len(region.blocks) != 1:
            raise Unreadable(f"a region of {len(region.blocks)} blocks")
        block = region.blocks[0]
        arguments = tuple([self._number(x) for x in block.arguments])
        *operations, last = block.operations
        read = [self._operation(operation.operation) for operation in operations]
        returned = tuple([self._numbers[x] for x in last.operation.operands])
        return Region(arguments, read, returned)

    def _operation(self, operation: Any) -> Operation:
        operands = tuple([self._numbers[x] for x in operation.operands])
        regions = tuple([self.region(region) for region in operation.regions])
        types = tuple([self.type(x.type) for x in operation.results])
        name = operation.name
        if name in ("stablehlo.constant", "chlo.constant"):
            attributes: dict[str, Any] = {"value": self._constant(operation, types[0])}
        else:
            found = operation.attributes
            attributes = {each: self._attribute(found[each]) for each in found}
        results = tuple([self._number(x) for x in operation.results])
        return Operation(name, operands, results, types, attributes, regions)

    def _number(self, value: Any) -> int:
        number = self._numbers[value] = len(self._numbers)
        return number

    def type(self, kind: Any) -> Type:
        """Return a type: that of an array, or the text of another."""
        known = self._types.get(kind)
        if known is None:
            known = self._types[kind] = self._read_type(kind)
        return known

    def _read_type(self, kind: Any) -> Type:
        ir = self._ir
        if not isinstance(kind, ir.RankedTensorType):
            return str(kind)
        tensor = ir.RankedTensorType(kind)
        dtype = dtype_of(str(tensor.element_type))
        if dtype is None or tensor.encoding is not None:
            return str(kind)
        if not tensor.has_static_shape:
            sizes = range(tensor.rank)
            known = [None if tensor.is_dynamic_dim(i) else tensor.get_dim_size(i) for i in sizes]
            return PartialType(tuple(known), dtype)
        return ShapedArray(tuple(tensor.shape), dtype)

    def _constant(self, operation: Any, kind: Type) -> np.ndarray:
        if not isinstance(kind, ShapedArray):
            raise Unreadable(f"a constant of type {kind}")
        if kind.dtype.kind in "iufb":
            try:
                value = np.array(operation.attributes["value"])
            except (TypeError, ValueError):
                # The bindings lack some dtypes, and complex numbers.
                value = None
            if value is not None and value.shape == kind.shape:
                return value.astype(kind.dtype, copy=False)
        return _written(str(operation), kind)

    def _attribute(self, attr: Any) -> Any:
        ir = self._ir
        if isinstance(attr, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr, ir.StringAttr)):
            return attr.value
        if isinstance(attr, ir.FlatSymbolRefAttr):
            return attr.value
        if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)):
            return tuple(attr)
        if isinstance(attr, ir.ArrayAttr):
            return tuple([self._attribute(each) for each in attr])
        if isinstance(attr, ir.DictAttr):
            return {each.name: self._attribute(each.attr) for each in attr}
        if isinstance(attr, ir.DenseIntElementsAttr):
            return np.array(attr).tolist()
        text = str(attr)
        found = _IDENTIFIER.match(text)
        if found:
            # An enumeration, such as #stablehlo<comparison_direction LT>.
            return found.group(1)
        return _fields(text) if text.startswith(_NUMBERS) else text


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of an attribute such as `#stablehlo.dot<lhs_batching_dimensions = [0]>`."""
    read: dict[str, Any] = {}
    for name, value in _FIELD.findall(text):
        if value.startswith("["):
            read[name] = tuple([int(x) for x in value[1:-1].split(",") if x.strip()])
        else:
            read[name] = int(value)
    return read


def _written(text: str, kind: ShapedArray) -> np.ndarray:
    """Return the elements of a constant that are written in the text of its operation."""
    found = _LITERAL.search(text)
    if found is None:
        raise Unreadable(f"a constant that is not written out: {text:.80}")
    shape: Any = kind.shape
    body, dtype = found.group(1), kind.dtype
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    if body.startswith('"0x'):
        flat = np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
    else:
        numbers = [_number(each, part) for each in _NUMBER.findall(body)]
        flat = np.array(numbers, part).view(dtype)
    if flat.size == 1:
        return np.broadcast_to(flat[0], shape)
    return flat.reshape(shape)


def _number(text: str, dtype: np.dtype) -> Any:
    """Return a number as MLIR writes it: as decimal digits, or as the bits of a float."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x") and dtype.kind not in "iu":
        return np.frombuffer(int(text, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    return float(text) if "." in text or "e" in text.lower() else int(text)
