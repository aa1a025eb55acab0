"""The LLVM instructions of one scalar operation, at any vector width.

f16 and bf16 are held in registers as i16, computed in f32, and rounded after every operation. No
operation becomes a library call: what a target lacks is expressed in instructions that it has.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence

from kiln.engines.native.llvm import rounding
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.scalars import Value, bits, is_float, is_signed

HALVES = ("f16", "bf16")
_F32, _U32, _F64, _U64 = map(struct.Struct, ("<f", "<I", "<d", "<Q"))
_ELEMENT = {"f16": "i16", "bf16": "i16", "f32": "float", "f64": "double"}


def element_text(dtype: str) -> str:
    """Return LLVM's type of one number in a register."""
    return _ELEMENT.get(dtype) or f"i{bits(dtype)}"


def type_text(dtype: str, width: int) -> str:
    """Return LLVM's type of a number (width 1) or a vector of them."""
    element = element_text(dtype)
    return element if width == 1 else f"<{width} x {element}>"


def splat(text: str, element: str, width: int) -> str:
    """Return the operand of a constant repeated in all lanes."""
    return text if width == 1 else f"splat ({element} {text})"


def constant_text(x: Value, width: int) -> str:
    """Return the operand of a constant."""
    if x.dtype == "i1":
        text = "true" if x.attr else "false"
    elif x.dtype == "f64":
        text = f"0x{x.attr:016X}"
    elif x.dtype == "f32":
        text = _f32_text(x.attr)
    else:
        text = str(x.attr)
    return splat(text, element_text(x.dtype), width)


@functools.lru_cache(maxsize=1024)  # Elementary functions share coefficients.
def _f32_text(pattern: int) -> str:
    # LLVM IR prints the bits of the same number as a double.
    mantissa, exponent = pattern & 0x7FFFFF, pattern >> 23 & 0xFF
    if exponent == 0xFF:
        return f"0x{pattern >> 31 << 63 | 0x7FF << 52 | mantissa << 29:016X}"
    (wide,) = _F32.unpack(_U32.pack(pattern))
    return f"0x{_U64.unpack(_F64.pack(wide))[0]:016X}"


def instruction(w: Writer, x: Value, operands: Sequence[str], width: int) -> str:
    """Emit one operation of `scalars.BASIC`, or a constant, and return its result's operand.

    The operands are LLVM operands of `type_text(dtype, width)`. Raises NotImplementedError on other
    operations, and on `rem` of floats, which must be expanded first.
    """
    if x.op == "constant":
        return constant_text(x, width)
    if x.op in _SPECIAL:
        return _SPECIAL[x.op](w, x, list(operands), width)
    dtype = x.operands[0].dtype if x.operands else x.dtype
    if dtype in HALVES:
        wide = [rounding.widen(w, o, dtype, width) for o in operands]
        found = _arithmetic(w, x.op, "f32", wide, width)
        return found if x.dtype == "i1" else rounding.narrow(w, found, x.dtype, width)
    return _arithmetic(w, x.op, dtype, list(operands), width)


def _arithmetic(w: Writer, op: str, dtype: str, operands: list[str], width: int) -> str:
    kind = type_text(dtype, width)
    if op in _COMPARISONS:
        return w.emit(f"{_comparison(op, dtype)} {kind} {', '.join(operands)}")
    plain = _FLOAT if is_float(dtype) else _INTEGER
    if op in plain:
        return w.emit(f"{plain[op]} {kind} {', '.join(operands)}")
    calls = _FLOAT_CALLS if is_float(dtype) else _INTEGER_CALLS
    if op in calls:
        name, rest = calls[op]
        return call(w, name.format("s" if is_signed(dtype) else "u"), dtype, operands, width, rest)
    if is_float(dtype) and op in ("fma", "muladd"):
        return _multiply_add(w, op, dtype, operands, width)
    if not is_float(dtype):
        if op in ("fma", "muladd"):
            product = w.emit(f"mul {kind} {operands[0]}, {operands[1]}")
            return w.emit(f"add {kind} {product}, {operands[2]}")
        if op == "neg":
            return w.emit(f"sub {kind} {splat('0', element_text(dtype), width)}, {operands[0]}")
        if op == "abs":
            if not is_signed(dtype):
                return operands[0]
            return call(w, "abs", dtype, operands, width, ", i1 false")
        if op in ("div", "rem"):
            return _divide(w, op, dtype, operands, width)
        if op == "mulhi":
            return _high_product(w, dtype, operands, width)
    raise NotImplementedError(f"{op} of {dtype}: not a basic operation; expand it")


def suffix(dtype: str, width: int) -> str:
    """Return the type suffix of an intrinsic: `v16f32`."""
    element = dtype if dtype in ("f32", "f64") else f"i{bits(dtype)}"
    return element if width == 1 else f"v{width}{element}"


def call(
    w: Writer, name: str, dtype: str, operands: Sequence[str], width: int, rest: str = ""
) -> str:
    """Emit a call of an intrinsic whose operands and result have one type."""
    kind = type_text(dtype, width)
    arguments = ", ".join(f"{kind} {o}" for o in operands)
    return w.emit(f"call {kind} @llvm.{name}.{suffix(dtype, width)}({arguments}{rest})")


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "neg": "fneg"}
_INTEGER = {op: op for op in ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr")}
_FLOAT_CALLS = {
    # maximum and minimum propagate nan, and -0 is less than 0.
    "min": ("minimum", ""), "max": ("maximum", ""), "abs": ("fabs", ""), "sqrt": ("sqrt", ""),
    "floor": ("floor", ""), "ceil": ("ceil", ""), "trunc": ("trunc", ""),
    "rint": ("roundeven", ""), "copysign": ("copysign", ""),
}  # fmt: skip
_INTEGER_CALLS = {
    "min": ("{}min", ""), "max": ("{}max", ""), "popcount": ("ctpop", ""),
    "clz": ("ctlz", ", i1 false"),
}  # fmt: skip


def _comparison(op: str, dtype: str) -> str:
    if is_float(dtype):
        return "fcmp une" if op == "ne" else f"fcmp o{op}"
    sign = "s" if is_signed(dtype) else "u"
    return f"icmp {op if op in ('eq', 'ne') else sign + op}"


def _multiply_add(w: Writer, op: str, dtype: str, operands: list[str], width: int) -> str:
    if w.target.fma:
        return call(w, "fma", dtype, operands, width)
    if op == "fma":
        return rounding.fused(w, dtype, operands, width)
    kind = type_text(dtype, width)
    product = w.emit(f"fmul {kind} {operands[0]}, {operands[1]}")
    return w.emit(f"fadd {kind} {product}, {operands[2]}")


def _divide(w: Writer, op: str, dtype: str, operands: list[str], width: int) -> str:
    kind, sign = type_text(dtype, width), "s" if is_signed(dtype) else "u"
    if width == 1 or bits(dtype) == 64 or not operands[1].startswith("%"):
        # Division by a constant becomes a multiplication or a shift in the code generator.
        return w.emit(f"{sign}{op} {kind} {', '.join(operands)}")
    # There is no vector integer division. The quotient of floats with more than twice as many bits
    # cannot round up to an integer.
    through = "f32" if bits(dtype) < 32 else "f64"
    floats = type_text(through, width)
    x, y = (w.emit(f"{sign}itofp {kind} {o} to {floats}") for o in operands)
    ratio = w.emit(f"fdiv {floats} {x}, {y}")
    wide = f"i{max(bits(dtype), 32)}"
    integers = type_text(wide, width)
    # Narrower unsigned numbers fit in the signed integer.
    how = "fptoui" if dtype == "u32" else "fptosi"
    quotient = w.emit(f"{how} {floats} {ratio} to {integers}")
    if integers != kind:
        quotient = w.emit(f"trunc {integers} {quotient} to {kind}")
    if op == "div":
        return quotient
    product = w.emit(f"mul {kind} {quotient}, {operands[1]}")
    return w.emit(f"sub {kind} {operands[0]}, {product}")


def _high_product(w: Writer, dtype: str, operands: list[str], width: int) -> str:
    kind, size = type_text(dtype, width), bits(dtype)
    if size == 64 and width > 1:
        return _high_product_of_halves(w, dtype, operands, width)
    wide = f"i{2 * size}" if width == 1 else f"<{width} x i{2 * size}>"
    extend = "sext" if is_signed(dtype) else "zext"
    x, y = (w.emit(f"{extend} {kind} {o} to {wide}") for o in operands)
    product = w.emit(f"mul {wide} {x}, {y}")
    high = w.emit(f"lshr {wide} {product}, {splat(str(size), f'i{2 * size}', width)}")
    return w.emit(f"trunc {wide} {high} to {kind}")


def _high_product_of_halves(w: Writer, dtype: str, operands: list[str], width: int) -> str:
    # Vectors have no product of 128 bits. Of a = (a1, a0) and b, in words of 32 bits:
    kind = type_text(dtype, width)

    def op(op: str, x: str, y: str | int) -> str:
        y = splat(str(y), "i64", width) if isinstance(y, int) else y
        return w.emit(f"{op} {kind} {x}, {y}")

    a, b = operands
    a0, b0 = (op("and", o, 0xFFFFFFFF) for o in (a, b))
    a1, b1 = (op("lshr", o, 32) for o in (a, b))
    cross = op("add", op("mul", a1, b0), op("lshr", op("mul", a0, b0), 32))
    middle = op("add", op("mul", a0, b1), op("and", cross, 0xFFFFFFFF))
    high = op("add", op("mul", a1, b1), op("lshr", cross, 32))
    high = op("add", high, op("lshr", middle, 32))
    if not is_signed(dtype):
        return high
    # A negative factor was counted as 2^64 more.
    for x, y in ((a, b), (b, a)):
        high = op("sub", high, op("and", op("ashr", x, 63), y))
    return high


def _logical_not(w: Writer, x: Value, operands: list[str], width: int) -> str:
    ones = "true" if x.dtype == "i1" else "-1"
    kind = type_text(x.dtype, width)
    return w.emit(f"xor {kind} {operands[0]}, {splat(ones, element_text(x.dtype), width)}")


def _select(w: Writer, x: Value, operands: list[str], width: int) -> str:
    mask, kind = type_text("i1", width), type_text(x.dtype, width)
    return w.emit(f"select {mask} {operands[0]}, {kind} {operands[1]}, {kind} {operands[2]}")


def _bitcast(w: Writer, x: Value, operands: list[str], width: int) -> str:
    before, after = type_text(x.operands[0].dtype, width), type_text(x.dtype, width)
    return operands[0] if before == after else w.emit(f"bitcast {before} {operands[0]} to {after}")


def _sign(w: Writer, x: Value, operands: list[str], width: int) -> str:
    """Emit neg, abs and copysign: of 16-bit floats on their bits, so that nan stays the same."""
    if x.dtype not in HALVES:
        return _arithmetic(w, x.op, x.dtype, operands, width)
    kind = type_text(x.dtype, width)
    sign, rest = (splat(c, "i16", width) for c in ("-32768", "32767"))
    if x.op == "neg":
        return w.emit(f"xor {kind} {operands[0]}, {sign}")
    size = w.emit(f"and {kind} {operands[0]}, {rest}")
    if x.op == "abs":
        return size
    taken = w.emit(f"and {kind} {operands[1]}, {sign}")
    return w.emit(f"or {kind} {size}, {taken}")


def _extreme(w: Writer, x: Value, operands: list[str], width: int) -> str:
    if x.dtype != "i1":
        if x.dtype in HALVES:
            operands = [rounding.widen(w, o, x.dtype, width) for o in operands]
            found = _arithmetic(w, x.op, "f32", operands, width)
            return rounding.narrow(w, found, x.dtype, width)
        return _arithmetic(w, x.op, x.dtype, operands, width)
    both = "and" if x.op == "min" else "or"
    return w.emit(f"{both} {type_text('i1', width)} {', '.join(operands)}")


def _convert(w: Writer, x: Value, operands: list[str], width: int) -> str:
    return convert(w, operands[0], x.operands[0].dtype, x.dtype, width)


def convert(w: Writer, operand: str, before: str, after: str, width: int) -> str:
    """Emit a conversion; floats to integers truncate, saturate, and map nan to 0."""
    if before == after:
        return operand
    kind, wanted = type_text(before, width), type_text(after, width)
    if before in HALVES:
        operand = rounding.widen(w, operand, before, width)
        return convert(w, operand, "f32", after, width)
    if after in HALVES:
        if before == "f64" and after == "f16":
            operand = rounding.to_odd(w, operand, width)
        return rounding.narrow(w, convert(w, operand, before, "f32", width), after, width)
    if after == "i1":
        how = "fcmp une" if is_float(before) else "icmp ne"
        zero = splat("0.0" if is_float(before) else "0", element_text(before), width)
        return w.emit(f"{how} {kind} {operand}, {zero}")
    if is_float(before):
        if is_float(after):
            how = "fpext" if after == "f64" else "fptrunc"
            return w.emit(f"{how} {kind} {operand} to {wanted}")
        sign = "s" if is_signed(after) else "u"
        name = f"fpto{sign}i.sat.{suffix(after, width)}.{suffix(before, width)}"
        return w.emit(f"call {wanted} @llvm.{name}({kind} {operand})")
    if is_float(after):
        return w.emit(f"{'s' if is_signed(before) else 'u'}itofp {kind} {operand} to {wanted}")
    if bits(before) == bits(after):
        return operand
    if bits(before) > bits(after):
        return w.emit(f"trunc {kind} {operand} to {wanted}")
    return w.emit(f"{'sext' if is_signed(before) else 'zext'} {kind} {operand} to {wanted}")


_SPECIAL: dict[str, Callable[[Writer, Value, list[str], int], str]] = {
    "not": _logical_not, "select": _select, "bitcast": _bitcast, "convert": _convert,
    "neg": _sign, "abs": _sign, "copysign": _sign, "min": _extreme, "max": _extreme,
}  # fmt: skip
