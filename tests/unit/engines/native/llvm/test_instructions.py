"""Every basic operation, on every type, compiled for each level that this machine runs."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

from kiln.engines.native.llvm import assembly, target
from kiln.engines.native.loop_ir.scalars import (
    BASIC,
    FLOATS,
    NUMPY_TYPES,
    SIGNED,
    TYPES,
    UNSIGNED,
    Scope,
    bits,
    is_float,
)
from kiln.ops.elements import edge_semantics
from tests.unit.engines.native.object_file import undefined_symbols
from tests.unit.engines.native.vectors import EPILOGUE, compiled, loop_text

INTEGERS = (*SIGNED, *UNSIGNED)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ORDER = list(target.LEVELS.values())
HOST = assembly.host_target()
RUNNABLE = [t for t in _ORDER[: _ORDER.index(HOST) + 1] if t.triple == HOST.triple]


def levels(all_levels):
    """Return parameters: this machine's level, and that of each other type of CPU."""
    return [
        pytest.param(t, id=t.name, marks=[pytest.mark.full] if is_lesser(t) else [])
        for t in all_levels
    ]


def is_lesser(level):
    return level.triple == HOST.triple and level is not HOST


def operations(dtype):
    if dtype == "i1":
        return ("and", "or", "xor", "not", "min", "max", *COMPARISONS, "select")
    common = ("add", "sub", "mul", "div", "neg", "abs", "min", "max", "fma", "muladd")
    common += (*COMPARISONS, "select")
    if dtype in FLOATS:
        return (*common, "sqrt", "floor", "ceil", "trunc", "rint", "copysign")
    common += ("rem", "and", "or", "xor", "not", "shl", "lshr", "ashr")
    return (*common, "popcount", "clz", "mulhi")


def samples(dtype, n, seed):
    rng = np.random.default_rng(seed)
    kind = NUMPY_TYPES[dtype]
    if dtype == "i1":
        return rng.integers(0, 2, n).astype(bool)
    raw = rng.integers(0, 256, n * kind.itemsize, np.uint8).view(kind).copy()
    if is_float(dtype):
        near = (rng.normal(size=n) * 8).astype(kind)
        raw = np.where(rng.random(n) < 0.5, raw, near)
        raw[: n // 4] = np.round(raw[: n // 4].astype("f8") * 2).astype(kind) / kind.type(2)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 1.5, 2.5]
        raw[rng.integers(0, n, n // 8)] = rng.choice(special, n // 8).astype(kind)
    return raw


def build(op, dtype):
    result = "i1" if op in COMPARISONS else dtype
    return lambda *xs: xs[0].scope.op(op, result, *xs)


def arguments(op, dtype, n=4096):
    count = BASIC[op]
    xs = [samples(dtype, n, seed + len(op)) for seed in range(count)]
    dtypes = [dtype] * count
    if op == "select":
        xs[0], dtypes[0] = samples("i1", n, 7), "i1"
    if op in ("shl", "lshr", "ashr"):
        xs[1] = xs[1] % xs[1].dtype.type(bits(dtype))
    if op in ("div", "rem") and dtype in INTEGERS:
        bad = xs[1] == 0
        if dtype in SIGNED:
            bad |= (xs[1] == -1) & (xs[0] == np.iinfo(xs[0].dtype).min)
        xs[1][bad] = 3
    return xs, dtypes


def rounded_fma(x, y, z):
    """x * y + z in f64 rounded once, from fractions."""
    out = np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, x * y + z)
    for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)):
        exact = Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i])
        if exact == 0:
            continue
        try:
            out[i] = np.copysign(float(abs(exact)), float(exact > 0) - 0.5)
        except OverflowError:
            out[i] = np.copysign(np.inf, float(exact > 0) - 0.5)
    return out


def expected(op, dtype, xs):
    kind = NUMPY_TYPES[dtype]
    if op in ("fma", "muladd"):
        x, y, z = xs
        if dtype in ("f16", "bf16"):
            wide = [a.astype("f4") for a in xs]
            return _fma32(*wide).astype(kind)
        if dtype == "f32":
            return _fma32(x, y, z)
        return rounded_fma(x, y, z) if dtype == "f64" else x * y + z
    if op == "mulhi":
        product = xs[0].astype(object) * xs[1].astype(object)
        return (product >> bits(dtype)).astype(kind)
    if op in ("div", "rem"):
        return (edge_semantics.divide if op == "div" else edge_semantics.remainder)(*xs)
    if op in ("lshr", "ashr"):
        right = edge_semantics.shift_right_logical
        return (right if op == "lshr" else edge_semantics.shift_right_arithmetic)(*xs)
    return {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
        "abs": np.abs, "min": edge_semantics.minimum, "max": edge_semantics.maximum,
        "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
        "rint": np.rint, "copysign": np.copysign, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor, "not": np.bitwise_not, "shl": np.left_shift,
        "popcount": edge_semantics.population_count, "clz": edge_semantics.leading_zeros,
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal, "select": np.where,
    }[op](*xs)  # fmt: skip


def _fma32(x, y, z):
    # In f64 the product is exact, the sum is not: round it to odd.
    p, c = x.astype("f8") * y.astype("f8"), z.astype("f8")
    total = p + c
    back = total - p
    error = (p - (total - back)) + (c - back)
    raw = total.view("i8")
    inexact = (error != 0) & np.isfinite(error) & (raw & 1 == 0)
    step = np.where((raw ^ error.view("i8")) < 0, -1, 1)
    return np.where(inexact, raw + step, raw).view("f8").astype("f4")


def same(found, wanted):
    if found.dtype.kind in "biu":
        return found == wanted
    nan = np.isnan(found) & np.isnan(wanted)
    unsigned = f"u{found.dtype.itemsize}"
    return nan | (found.view(unsigned) == wanted.view(unsigned))


@pytest.mark.parametrize("level", levels(RUNNABLE))
@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("dtype", TYPES)
def test_operations_agree_with_numpy(dtype, width, level):
    for op in operations(dtype):
        xs, dtypes = arguments(op, dtype)
        found = compiled(build(op, dtype), dtypes, width, level)(*xs)
        if op == "muladd" and not level.fma and is_float(dtype):
            continue
        with np.errstate(all="ignore"):
            wanted = np.asarray(expected(op, dtype, xs)).astype(found.dtype)
        ok = same(found, wanted)
        if op == "fma" and dtype == "f64" and not level.fma:
            with np.errstate(all="ignore"):
                p = np.abs(xs[0] * xs[1])
                split = np.maximum(np.abs(xs[0]), np.abs(xs[1])) < 1e299
            ok |= ~((p > 1e-290) & (p < 1e299) & split)
        bad = np.flatnonzero(~ok)
        assert not len(bad), (op, [x[bad[:3]] for x in xs], found[bad[:3]], wanted[bad[:3]])


@pytest.mark.parametrize("level", levels(RUNNABLE))
@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("before", TYPES)
def test_conversions_agree_with_numpy(before, width, level):
    for after in TYPES:
        x = samples(before, 4096, 3)
        found = compiled(lambda x: x.convert(after), [before], width, level)(x)  # noqa: B023
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if after in ("f16", "bf16") and before in INTEGERS:
                wanted = x.astype("f4").astype(NUMPY_TYPES[after])
            else:
                wanted = edge_semantics.convert(x, NUMPY_TYPES[after])
        bad = np.flatnonzero(~same(found, wanted))
        assert not len(bad), (after, x[bad[:3]], found[bad[:3]], wanted[bad[:3]])


@pytest.mark.parametrize("level", levels(RUNNABLE))
def test_all_halves_convert_both_ways(level):
    for dtype in ("f16", "bf16"):
        kind = NUMPY_TYPES[dtype]
        x = np.arange(1 << 16, dtype=np.uint16).view(kind)
        wide = compiled(lambda x: x.convert("f32"), [dtype], 16, level)(x)
        assert same(wide, x.astype("f4")).all()
        # Halfway between neighbors, and a little to each side.
        finite = wide[np.isfinite(wide)]
        with np.errstate(all="ignore"):
            raw = np.concatenate([finite.view("u4") + d for d in (0, 1, 0xFFF, 0x1000, 0x1001,
                                  0x7FFF, 0x8000, 0x8001)]).view("f4")  # fmt: skip
            back = compiled(lambda x: x.convert(dtype), ["f32"], 16, level)(raw)  # noqa: B023
            assert same(back, raw.astype(kind)).all()


@pytest.mark.parametrize("level", levels(target.LEVELS.values()))
@pytest.mark.parametrize("dtype", TYPES)
def test_no_operation_calls_a_library(dtype, level):
    text = []
    for op in operations(dtype):
        count = BASIC[op]
        dtypes = [dtype] * count
        if op == "select":
            dtypes[0] = "i1"
        text.append((build(op, dtype), dtypes))
    for after in TYPES:
        text.append((lambda x, after=after: x.convert(after), [dtype]))
    for width in (1, level.lanes(max(8, bits(dtype))), 16):
        joined = ""
        for i, (expression, dtypes) in enumerate(text):
            joined += loop_text(level, expression, dtypes, width, f"run{i}")[0]
        object_ = assembly.assemble(joined + EPILOGUE, level)
        assert undefined_symbols(object_) == []


def test_constants_are_written_bit_by_bit():
    scope = Scope()
    for dtype in TYPES:
        for x in samples(dtype, 40, 5):
            unsigned = int(np.asarray(x).view(f"u{np.asarray(x).itemsize}"))
            if is_float(dtype) and np.isnan(float(x)):
                continue
            constant = lambda y: y.scope.bits(unsigned, dtype)  # noqa: B023
            found = compiled(constant, [dtype], 4)(np.zeros(4, NUMPY_TYPES[dtype]))
            assert int(found[:1].view(f"u{found.itemsize}")[0]) == unsigned
    assert scope.constant(1.5, "f32").attr == 0x3FC00000
