"""Scalar expressions: what a loop nest computes at one point of its domain.

A `Value` is a node of an acyclic graph. Equal nodes of one `Scope` are one object, so common
subexpressions are shared as soon as they are written, and equality is identity. Arithmetic is that
of the machine types; nothing is contracted or reassociated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from kiln.ir.sizes.size import Size

FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
TYPES = ("i1", *SIGNED, *UNSIGNED, *FLOATS)

NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    **{f"{kind}{8 * n}": np.dtype(f"{kind}{n}") for kind in "iu" for n in (1, 2, 4, 8)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""The NumPy dtype of each machine type. A bool is a byte in memory."""

_PATTERN_TYPES = {name: np.dtype(f"u{kind.itemsize}") for name, kind in NUMPY_TYPES.items()}
"""The integer type with the bits of each type."""
_ONES = {
    name: int(np.array(1, kind).view(_PATTERN_TYPES[name])) for name, kind in NUMPY_TYPES.items()
}

MACHINE_TYPES = {dtype: name for name, dtype in NUMPY_TYPES.items()}


_BITS = {name: int(name.lstrip("iubf")) for name in TYPES}


def bits(dtype: str) -> int:
    """Return the width of a type; 1 for a bool."""
    return _BITS[dtype]


def is_float(dtype: str) -> bool:
    """Tell whether a type is a float."""
    return dtype in FLOATS


def is_signed(dtype: str) -> bool:
    """Tell whether a type is a signed integer."""
    return dtype in SIGNED


class Value:
    """A node: an operation on other nodes. `attr` is what the operation needs beside operands.

    The operators of Python build further nodes; numbers beside a node take its type. Comparisons
    are methods (`x.lt(y)`), because `==` is identity.
    """

    __slots__ = ("attr", "dtype", "op", "operands", "scope")

    def __init__(
        self, scope: Scope, op: str, dtype: str, operands: tuple[Value, ...], attr: Any
    ) -> None:
        self.scope = scope
        self.op = op
        self.dtype = dtype
        self.operands = operands
        self.attr = attr

    def __repr__(self) -> str:
        return f"{self.op}:{self.dtype}"

    def _with(self, other: Any) -> Value:
        return other if isinstance(other, Value) else self.scope.constant(other, self.dtype)

    def _binary(self, op: str, other: Any) -> Value:
        return self.scope.op(op, self.dtype, self, self._with(other))

    def _reflected(self, op: str, other: Any) -> Value:
        return self.scope.op(op, self.dtype, self._with(other), self)

    def __add__(self, other: Any) -> Value:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Value:
        return self._reflected("add", other)

    def __sub__(self, other: Any) -> Value:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._reflected("sub", other)

    def __mul__(self, other: Any) -> Value:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Value:
        return self._reflected("mul", other)

    def __truediv__(self, other: Any) -> Value:
        return self._binary("div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._reflected("div", other)

    def __neg__(self) -> Value:
        return self.scope.op("neg", self.dtype, self)

    def __abs__(self) -> Value:
        return self.scope.op("abs", self.dtype, self)

    def __and__(self, other: Any) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Any) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Any) -> Value:
        return self._binary("xor", other)

    def __invert__(self) -> Value:
        return self.scope.op("not", self.dtype, self)

    def __lshift__(self, other: Any) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Any) -> Value:
        """Shift right: signed types keep their sign."""
        return self._binary("ashr" if is_signed(self.dtype) else "lshr", other)

    def compare(self, how: str, other: Any) -> Value:
        """Return whether `self` is eq, ne, lt, le, gt or ge to another; false for nan but in ne."""
        return self.scope.op(how, "i1", self, self._with(other))

    def eq(self, other: Any) -> Value:
        """Return self == other."""
        return self.compare("eq", other)

    def ne(self, other: Any) -> Value:
        """Return self != other; true for nan."""
        return self.compare("ne", other)

    def lt(self, other: Any) -> Value:
        """Return self < other."""
        return self.compare("lt", other)

    def le(self, other: Any) -> Value:
        """Return self <= other."""
        return self.compare("le", other)

    def gt(self, other: Any) -> Value:
        """Return self > other."""
        return self.compare("gt", other)

    def ge(self, other: Any) -> Value:
        """Return self >= other."""
        return self.compare("ge", other)

    def select(self, then: Any, otherwise: Any) -> Value:
        """Return `then` where this bool is true, else `otherwise`; one of them is a node."""
        typed = then if isinstance(then, Value) else otherwise
        return self.scope.op("select", typed.dtype, self, typed._with(then), typed._with(otherwise))

    def convert(self, dtype: str) -> Value:
        """Convert the number to another type, as C does (floats to integers truncate)."""
        return self if dtype == self.dtype else self.scope.op("convert", dtype, self)

    def bitcast(self, dtype: str) -> Value:
        """Read the bits as another type of the same width."""
        return self if dtype == self.dtype else self.scope.op("bitcast", dtype, self)

    def fma(self, factor: Any, addend: Any) -> Value:
        """Return self * factor + addend, rounded once."""
        return self.scope.op("fma", self.dtype, self, self._with(factor), self._with(addend))

    def muladd(self, factor: Any, addend: Any) -> Value:
        """Return self * factor + addend, rounded once if the target can, otherwise twice."""
        return self.scope.op("muladd", self.dtype, self, self._with(factor), self._with(addend))

    def unary(self, op: str) -> Value:
        """Apply an operation of one operand: floor, ceil, trunc, rint, sqrt, or a function."""
        return self.scope.op(op, self.dtype, self)

    def least(self, other: Any) -> Value:
        """Return the smaller of two numbers as x < y ? x : y, so the second if either is nan."""
        other = self._with(other)
        return self.lt(other).select(self, other)

    def greatest(self, other: Any) -> Value:
        """Return the larger of two numbers as x > y ? x : y, so the second if either is nan."""
        other = self._with(other)
        return self.gt(other).select(self, other)


BASIC = {
    # Numbers of operands. Integers wrap around.
    "add": 2, "sub": 2, "mul": 2, "div": 2, "rem": 2, "neg": 1, "abs": 1,
    "min": 2, "max": 2,  # of integers; of floats they propagate nan
    "fma": 3, "muladd": 3,
    "sqrt": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "copysign": 2,
    "and": 2, "or": 2, "xor": 2, "not": 1, "shl": 2, "lshr": 2, "ashr": 2,
    "popcount": 1, "clz": 1, "mulhi": 2,
    "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2,
    "select": 3, "convert": 1, "bitcast": 1,
}  # fmt: skip
"""Operations for which code is generated. All others are functions, expanded into these.

Shifts by the width or more are undefined, as are division by zero and of the least integer by -1.
Beside these there are `constant` (attr: bits as an int), `size` (attr: a size of named axes),
`index` (attr: an `Index`), `load` (attr: buffer and index), `rare`: (mask, usual, exact) is `exact`
where the mask is true, else `usual`, and computes `exact` only if some lane needs it, and
`of_runtime` (attr: a name): a function of the extension. `checked` and `within` (attr: the numbers
of sites) return their first operand, and record the site if it is nan, or an index beyond the
second operand: see `checks.py`.
"""

_FOLDED: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_FOLDED_OF_INTEGERS: dict[str, Callable[..., Any]] = {"min": np.minimum, "max": np.maximum}


_PATTERNS = {
    "f32": (struct.Struct("<f"), struct.Struct("<I")),
    "f64": (struct.Struct("<d"), struct.Struct("<Q")),
}
"""Converts a Python number to the bits of a dtype."""


_DIGITS = {"f32": (23, 254), "f64": (52, 2046)}
"""Stored digits of a significand, and twice the bias of an exponent."""


def _exact_inverse(pattern: int, dtype: str) -> int | None:
    """Return the bits of the inverse of a power of two if neither is subnormal, else None."""
    digits, twice = _DIGITS[dtype]
    sign, size = pattern >> (bits(dtype) - 1), pattern & ((1 << (bits(dtype) - 1)) - 1)
    exponent, rest = divmod(size, 1 << digits)
    if rest or not 0 < exponent < twice:
        return None
    return (sign << (bits(dtype) - 1)) | ((twice - exponent) << digits)


class Scope:
    """Creates nodes, each once."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[Any, Value] = {}

    def node(self, op: str, dtype: str, operands: tuple[Value, ...], attr: Any = None) -> Value:
        """Return the node of an operation, without folding."""
        key = (op, dtype, operands, attr)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Value(self, op, dtype, operands, attr)
        return found

    def all(self) -> Iterable[Value]:
        """Return all nodes."""
        return self._nodes.values()

    def op(self, op: str, dtype: str, *operands: Value) -> Value:
        """Return the node of an operation, folded if its operands are constants."""
        for x in operands:
            if x.op != "constant":
                break
        else:
            fold = _FOLDED.get(op)
            if fold is None and not is_float(operands[0].dtype):
                fold = _FOLDED_OF_INTEGERS.get(op)
            if fold is not None:
                with np.errstate(all="ignore"):
                    return self.constant(fold(*[number(x) for x in operands]), dtype)
            if op == "convert" and not is_float(operands[0].dtype):
                return self.constant(number(operands[0]), dtype)
        if op == "select":
            condition, then, otherwise = operands
            if then is otherwise:
                return then
            if condition.op == "constant":
                return then if condition.attr else otherwise
        elif op in ("and", "or") and dtype == "i1":
            x, y = operands
            neutral = 1 if op == "and" else 0
            for one, other in ((x, y), (y, x)):
                if one is other or is_constant(one, neutral):
                    return other
                if is_constant(one, 1 - neutral):
                    return one
        elif op in ("eq", "ne") and operands[0].dtype == "i1":
            x, y = operands
            if is_constant(y, int(op == "eq")):
                return x
        elif op == "mul":
            x, y = operands
            if is_constant(y, number_one(dtype)):
                return x
            if is_constant(x, number_one(dtype)):
                return y
        elif op == "div" and operands[1].op == "constant" and dtype in _DIGITS:
            inverse = _exact_inverse(operands[1].attr, dtype)
            if inverse is not None:
                return self.op("mul", dtype, operands[0], self.bits(inverse, dtype))
        return self.node(op, dtype, operands)

    def constant(self, number: Any, dtype: str) -> Value:
        """Return a constant: a number converted to a type; a named size is known in a call."""
        if type(number) is Size:
            if is_float(dtype):
                return self.op("convert", dtype, self.constant(number, "i64"))
            return self.node("size", dtype, (), number)
        kind = NUMPY_TYPES[dtype]
        if isinstance(number, int) and dtype in SIGNED + UNSIGNED:
            return self.node("constant", dtype, (), number & ((1 << bits(dtype)) - 1))
        if type(number) is float and dtype in _PATTERNS and abs(number) < 1e38:
            as_float, as_integer = _PATTERNS[dtype]
            (pattern,) = as_integer.unpack(as_float.pack(number))
            return self.node("constant", dtype, (), pattern)
        if type(number) is kind.type:
            return self.node("constant", dtype, (), int(number.view(_PATTERN_TYPES[dtype])))
        with np.errstate(all="ignore"):
            stored = np.asarray(number).astype(kind)
        unsigned = stored.view(_PATTERN_TYPES[dtype])
        return self.node("constant", dtype, (), int(unsigned))

    def bits(self, pattern: int, dtype: str) -> Value:
        """Return the constant with a pattern of bits: `bits(0x7F800000, "f32")` is infinity."""
        return self.node("constant", dtype, (), pattern)

    def rare(self, mask: Value, usual: Value, exact: Value) -> Value:
        """Return `exact` where the mask is true, computed only if any lane needs it."""
        return self.node("rare", usual.dtype, (mask, usual, exact))

    def of_runtime(self, name: str, x: Value) -> Value:
        """Return a function of x that the extension computes, for the rare branch."""
        return self.node("of_runtime", x.dtype, (x,), name)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Return sum(c * x**i) by Horner's rule with `muladd`; the constant term comes first."""
        total = self.constant(coefficients[-1], x.dtype)
        for c in reversed(coefficients[:-1]):
            total = total.muladd(x, self.constant(c, x.dtype))
        return total


def number(x: Value) -> Any:
    """Return the NumPy scalar of a constant."""
    return np.array(x.attr, _PATTERN_TYPES[x.dtype]).view(NUMPY_TYPES[x.dtype])[()]


def number_one(dtype: str) -> int:
    """Return the bits of the number 1."""
    return _ONES[dtype]


def is_constant(x: Value, pattern: int) -> bool:
    """Tell whether a node is the constant with these bits."""
    return x.op == "constant" and x.attr == pattern


def postorder(roots: Sequence[Value]) -> list[Value]:
    """Return all nodes reachable from some, operands first, without recursion."""
    seen: dict[Value, None] = {}
    stack = list(reversed(roots))
    while stack:
        x = stack[-1]
        if x not in seen:
            height = len(stack)
            for y in x.operands[::-1]:
                if y not in seen:
                    stack.append(y)
            if len(stack) > height:
                continue
            seen[x] = None
        stack.pop()
    return list(seen)


def rebuilt(x: Value, operands: tuple[Value, ...]) -> Value:
    """Return a node with other operands, folded if they are constants."""
    if all(a is b for a, b in zip(operands, x.operands, strict=True)):
        return x
    if x.attr is None:
        return x.scope.op(x.op, x.dtype, *operands)
    return x.scope.node(x.op, x.dtype, operands, x.attr)


def cost(x: Value) -> int:
    """Return roughly how many instructions a node is."""
    if x.op in ("constant", "size", "index"):
        return 0
    if x.op in ("div", "sqrt", "rem"):
        return 8
    if x.op in ("load", "rare", "checked", "within") or x.op in BASIC:
        return 1
    return 20
