"""Float operations that a processor lacks: f16 and bf16 to f32 and back, and fused multiply-add.

Sources: rounding to odd before a second rounding, and multiply-add from it, as in Boldo and
Melquiond, Emulation of FMA and correctly rounded sums (2008); the product without error, Dekker
(1971); the sum without error, Knuth, volume 2, section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.llvm.writer import Writer


class _Lanes:
    """Instructions on vectors of one width, with splat constants."""

    def __init__(self, w: Writer, width: int) -> None:
        self.w = w
        self.width = width

    def kind(self, element: str) -> str:
        return element if self.width == 1 else f"<{self.width} x {element}>"

    def constant(self, text: str | int, element: str) -> str:
        return str(text) if self.width == 1 else f"splat ({element} {text})"

    def op(self, op: str, element: str, x: str, y: str | int) -> str:
        """Write `op x, y`; a number is a constant, a name begins with % (or is a splat)."""
        if isinstance(y, int):
            y = self.constant(y, element)
        return self.w.emit(f"{op} {self.kind(element)} {x}, {y}")

    def select(self, mask: str, element: str, then: str | int, otherwise: str | int) -> str:
        kind = self.kind(element)
        then, otherwise = (
            self.constant(c, element) if isinstance(c, int) else c for c in (then, otherwise)
        )
        return self.w.emit(f"select {self.kind('i1')} {mask}, {kind} {then}, {kind} {otherwise}")

    def cast(self, how: str, x: str, before: str, after: str) -> str:
        return self.w.emit(f"{how} {self.kind(before)} {x} to {self.kind(after)}")

    def fabs(self, x: str, element: str) -> str:
        kind = self.kind(element)
        short = {"float": "f32", "double": "f64"}[element]
        name = short if self.width == 1 else f"v{self.width}{short}"
        return self.w.emit(f"call {kind} @llvm.fabs.{name}({kind} {x})")


def widen(w: Writer, x: str, dtype: str, width: int) -> str:
    """Write the conversion of f16 or bf16 (as i16) to f32."""
    v = _Lanes(w, width)
    if dtype == "bf16":
        return v.cast("bitcast", v.op("shl", "i32", v.cast("zext", x, "i16", "i32"), 16),
                      "i32", "float")  # fmt: skip
    if w.target.half:
        return v.cast("fpext", v.cast("bitcast", x, "i16", "half"), "half", "float")
    wide = v.cast("zext", x, "i16", "i32")
    size = v.op("shl", "i32", v.op("and", "i32", wide, 0x7FFF), 13)
    # 2^112 moves the bias of the exponent, and makes subnormals normal.
    scale = v.constant("0x46F0000000000000", "float")
    scaled = v.op("fmul", "float", v.cast("bitcast", size, "i32", "float"), scale)
    finite = v.cast("bitcast", scaled, "float", "i32")
    special = v.op("icmp uge", "i32", size, 0x7C00 << 13)
    # nan becomes quiet, as by the instruction.
    nan = v.op("icmp ugt", "i32", size, 0x7C00 << 13)
    most = v.op("or", "i32", size, 0x7F800000)
    most = v.op("or", "i32", most, v.select(nan, "i32", 0x400000, 0))
    joined = v.select(special, "i32", most, finite)
    sign = v.op("shl", "i32", v.op("and", "i32", wide, 0x8000), 16)
    return v.cast("bitcast", v.op("or", "i32", joined, sign), "i32", "float")


def narrow(w: Writer, x: str, dtype: str, width: int) -> str:
    """Write the conversion of f32 to f16 or bf16 (as i16): to nearest, ties to even."""
    v = _Lanes(w, width)
    if dtype == "bf16":
        return _narrow_bf16(v, x)
    if w.target.half:
        return v.cast("bitcast", v.cast("fptrunc", x, "float", "half"), "half", "i16")
    raw = v.cast("bitcast", x, "float", "i32")
    size = v.op("and", "i32", raw, 0x7FFFFFFF)
    odd = v.op("and", "i32", v.op("lshr", "i32", size, 13), 1)
    # The bias changes by 112; a carry of the rounding increments the exponent, up to infinity.
    moved = v.op("add", "i32", v.op("add", "i32", size, odd), 0xFFF - (112 << 23))
    normal = v.op("lshr", "i32", moved, 13)
    # Adding 1/2 leaves the multiple of 2^-24, rounded by the addition, in the low bits.
    half = v.constant("0.5", "float")
    summed = v.op("fadd", "float", v.cast("bitcast", size, "i32", "float"), half)
    small = v.op("sub", "i32", v.cast("bitcast", summed, "float", "i32"), 0x3F000000)
    found = v.select(v.op("icmp ult", "i32", size, 113 << 23), "i32", small, normal)
    found = v.select(v.op("icmp uge", "i32", size, 0x477FF000), "i32", 0x7C00, found)
    quiet = v.op("or", "i32", v.op("and", "i32", v.op("lshr", "i32", size, 13), 0x3FF), 0x7E00)
    found = v.select(v.op("icmp ugt", "i32", size, 0x7F800000), "i32", quiet, found)
    sign = v.op("and", "i32", v.op("lshr", "i32", raw, 16), 0x8000)
    return v.cast("trunc", v.op("or", "i32", found, sign), "i32", "i16")


def _narrow_bf16(v: _Lanes, x: str) -> str:
    raw = v.cast("bitcast", x, "float", "i32")
    high = v.op("lshr", "i32", raw, 16)
    odd = v.op("and", "i32", high, 1)
    rounded = v.op("lshr", "i32", v.op("add", "i32", v.op("add", "i32", raw, odd), 0x7FFF), 16)
    nan = v.w.emit(f"fcmp uno {v.kind('float')} {x}, {x}")
    return v.cast("trunc", v.select(nan, "i32", v.op("or", "i32", high, 0x40), rounded),
                  "i32", "i16")  # fmt: skip


def to_odd(w: Writer, x: str, width: int) -> str:
    """Write the rounding of f64 to 24 bits of mantissa, to odd: as f32 it loses nothing more.

    What is rounded again, to f16, is then rounded as if once.
    """
    v = _Lanes(w, width)
    raw = v.cast("bitcast", x, "double", "i64")
    below = v.op("icmp ne", "i64", v.op("and", "i64", raw, (1 << 29) - 1), 0)
    kept = v.op("and", "i64", raw, -(1 << 29))
    sticky = v.op("or", "i64", kept, v.select(below, "i64", 1 << 29, 0))
    return v.cast("bitcast", sticky, "i64", "double")


def fused(w: Writer, dtype: str, operands: Sequence[str], width: int) -> str:
    """Write x * y + z, rounded once, for processors without the instruction.

    Of f64 exact unless the product, or its error, leaves the range of f64.
    """
    v = _Lanes(w, width)
    if dtype == "f32":
        x, y, z = (v.cast("fpext", o, "float", "double") for o in operands)
        total, error = _sum(v, v.op("fmul", "double", x, y), z)
        return v.cast("fptrunc", _odd(v, total, error), "double", "float")
    x, y, z = operands
    product, low = _product(v, x, y)
    middle, last = _sum(v, z, low)
    high, rest = _sum(v, product, middle)
    total = v.op("fadd", "double", high, _odd(v, *_sum(v, rest, last)))
    plain = v.op("fadd", "double", product, z)
    # Infinities and nan, also those of the splitting, have no error to add.
    apart = v.op("fsub", "double", total, total)
    usable = v.w.emit(f"fcmp ord {v.kind('double')} {apart}, {apart}")
    return v.select(usable, "double", total, plain)


def _sum(v: _Lanes, x: str, y: str) -> tuple[str, str]:
    total = v.op("fadd", "double", x, y)
    back = v.op("fsub", "double", total, x)
    left = v.op("fsub", "double", x, v.op("fsub", "double", total, back))
    right = v.op("fsub", "double", y, back)
    return total, v.op("fadd", "double", left, right)


def _product(v: _Lanes, x: str, y: str) -> tuple[str, str]:
    product = v.op("fmul", "double", x, y)
    (a, b), (c, d) = _halves(v, x), _halves(v, y)
    error = v.op("fsub", "double", v.op("fmul", "double", a, c), product)
    for left, right in ((a, d), (b, c), (b, d)):
        error = v.op("fadd", "double", error, v.op("fmul", "double", left, right))
    return product, error


def _halves(v: _Lanes, x: str) -> tuple[str, str]:
    # Rounded to 26 bits by its pattern: a product, as Dekker's, may overflow.
    raw = v.op("add", "i64", v.cast("bitcast", x, "double", "i64"), 1 << 26)
    high = v.cast("bitcast", v.op("and", "i64", raw, -(1 << 27)), "i64", "double")
    return high, v.op("fsub", "double", x, high)


def _odd(v: _Lanes, total: str, error: str) -> str:
    """Round total + error to odd: away from an even mantissa, towards the error."""
    raw = v.cast("bitcast", total, "double", "i64")
    even = v.op("icmp eq", "i64", v.op("and", "i64", raw, 1), 0)
    zero = v.constant("0.0", "double")
    inexact = v.op("fcmp one", "double", error, zero)
    step = v.op("and", "i1", even, inexact)
    # The sign of error * total, without the underflow of the product.
    signs = v.op("xor", "i64", raw, v.cast("bitcast", error, "double", "i64"))
    down = v.op("icmp slt", "i64", signs, 0)
    moved = v.op("add", "i64", raw, v.select(down, "i64", -1, 1))
    return v.cast("bitcast", v.select(step, "i64", moved, raw), "i64", "double")
