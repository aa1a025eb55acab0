"""Element-wise operations at the edges, compared with jax; what they accept and refuse."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.ir.types import ShapedArray

jax = pytest.importorskip("jax")

UNARY = [
    *("neg", "sign", "abs", "square", "floor", "ceil", "sqrt", "rsqrt", "cbrt", "exp", "exp2"),
    *("expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "logistic", "is_finite", "bitwise_not", "population_count", "clz"),
    "round",
]
BINARY = [
    *("add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter", "eq", "ne"),
    *("lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left"),
    *("shift_right_logical", "shift_right_arithmetic"),
]
REAL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"]
COARSE = {"float16": 3e-3, "bfloat16": 4e-2, "float32": 3e-5, "complex64": 1e-4}


def edges(dtype: str) -> np.ndarray:
    """Return the values of a dtype at which something may go wrong."""
    found = dtypes.as_dtype(dtype)
    if dtype == "bool":
        return np.array([False, True])
    if dtypes.issubdtype(found, np.integer):
        info = np.iinfo(found)
        chosen = {info.min, info.min + 1, info.max, info.max - 1, *range(-9, 10), 31, 32, 33}
        return np.array(sorted(v for v in chosen if info.min <= v <= info.max), found)
    info = dtypes.finfo(found)
    chosen = [0.0, -0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 88.0, 1e-3, 1e4]
    chosen += [float(info.tiny), float(info.max), np.inf, np.nan]
    return np.array([s * v for v in chosen for s in (1, -1)]).astype(found)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(edges(dtype), edges(dtype))
    return x.ravel(), y.ravel()


def accepted(names: list[str], args: tuple[np.ndarray, ...]) -> list[str]:
    """Return the functions that both libraries accept."""
    found = []
    for name in names:
        try:
            stage(lambda *xs, name=name: [getattr(lax, name)(*xs)], types(args))
            jax.eval_shape(getattr(jax.lax, name), *args)
        except TypeError:
            continue
        found.append(name)
    return found


def types(args: tuple[np.ndarray, ...]) -> list[ShapedArray]:
    return [ShapedArray(x.shape, x.dtype) for x in args]


def assert_same(found: np.ndarray, expected: np.ndarray, coarse: float, what: str) -> None:
    assert found.dtype == expected.dtype, what
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected, what)
        return
    a, b = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(a, b, coarse, coarse, err_msg=what)
    zero = (a == 0) & (b == 0)
    np.testing.assert_array_equal(np.signbit(a)[zero], np.signbit(b)[zero], what)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(("names", "count"), [(UNARY, 1), (BINARY, 2)], ids=["unary", "binary"])
def test_edges_are_those_of_jax(names: list[str], count: int, dtype: str) -> None:
    args = (edges(dtype),) if count == 1 else pairs(dtype)
    both = accepted(names, args)
    assert both
    expected = jax.jit(lambda *xs: {name: getattr(jax.lax, name)(*xs) for name in both})(*args)
    arrays = list(map(from_host, args))
    for name in both:
        found = np.asarray(getattr(lax, name)(*arrays))
        wanted = np.asarray(expected[name])
        if name in ("pow", "exp2") and wanted.dtype.kind not in "biu":
            # Huge powers show the last bit of their logarithm.
            size = np.abs(wanted.astype(np.float64))
            keep = (size < 1e3) | ~np.isfinite(size)
            found, wanted = found[keep], wanted[keep]
        assert_same(found, wanted, COARSE.get(dtype, 0), f"{name} of {dtype}")


def test_complex_functions_are_those_of_jax() -> None:
    rng = np.random.default_rng(0)
    x = (rng.uniform(-2, 2, 40) + 1j * rng.uniform(-2, 2, 40)).astype(np.complex64)
    y = np.roll(x, 1)
    unary = [*accepted(UNARY, (x,)), "real", "imag", "conj"]
    binary = accepted(BINARY, (x, y))
    assert {"exp", "tanh", "sign", "abs"} <= set(unary)
    expected = jax.jit(
        lambda x, y: (
            {name: getattr(jax.lax, name)(x) for name in unary},
            {name: getattr(jax.lax, name)(x, y) for name in binary},
        )
    )(x, y)
    for names, args, wanted in zip((unary, binary), ((x,), (x, y)), expected, strict=True):
        for name in names:
            found = np.asarray(getattr(lax, name)(*map(from_host, args)))
            np.testing.assert_allclose(found, wanted[name], 2e-4, 2e-5, err_msg=name)


def test_a_square_of_equal_parts_that_overflow_has_no_real_part() -> None:
    large = float(np.finfo(np.float32).max)
    x = np.array([[large + large * 1j, -large + large * 1j, large - large * 1j]], np.complex64)
    expected = jax.numpy.square(x)
    assert not np.asarray(expected.real).any()
    for engine in ("native", "xla"):
        with override(engine=engine):
            np.testing.assert_array_equal(kiln.jit(lax.square)(x), expected)
    np.testing.assert_array_equal(lax.square(x), expected)


def test_complex_functions_at_special_values_are_those_of_jax_or_numpy() -> None:
    """Zeros of both signs, infinities and nans too, eagerly as compiled."""
    odd = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e30, -100.0], np.float32)
    x = (odd[:, None] + np.zeros(len(odd), np.complex64)).ravel()
    x.imag = np.tile(odd, len(odd))
    y = from_host(x)
    unary = accepted(UNARY, (x,))
    assert {"expm1", "square", "sin", "cos", "sqrt", "atan"} <= set(unary)
    jax_s = jax.jit(lambda x: {name: getattr(jax.lax, name)(x) for name in unary})(x)
    compiled = kiln.jit(lambda x: {name: getattr(lax, name)(x) for name in unary})(y)
    numpy_s = {"rsqrt": lambda x: 1 / np.sqrt(x), "asin": np.arcsin, "acos": np.arccos}
    # NumPy's is nan at infinities, where the array API standard has the limits of exp.
    numpy_s["expm1"] = lambda x: np.where(np.isfinite(x), np.expm1(x), np.exp(x) - 1)
    # The logistic function has limits at infinity, where theirs are nan.
    for name in sorted({*unary} - {"logistic"}):
        function = numpy_s.get(name, getattr(np, name, None))
        with np.errstate(all="ignore"):
            expected = [np.asarray(jax_s[name]), *([function(x)] if function else [])]
        for found in (np.asarray(getattr(lax, name)(y)), np.asarray(compiled[name])):
            agree = np.logical_or.reduce([_agree(x, found, each) for each in expected])
            assert agree.all(), (name, x[~agree])


def _agree(x: np.ndarray, found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Tell which values agree, finite ones of finite numbers in the signs of zeros too."""
    agree = np.ones(found.shape, bool)
    for a, b in zip(_parts(found), _parts(np.asarray(expected)), strict=True):
        agree &= np.isclose(a, b, 2e-4, 1e-6, equal_nan=True)
        agree &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b)) | ~np.isfinite(x + found)
    return agree


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def test_int_division_before_flooring_is_minus_one() -> None:
    x = from_host(np.array([5, -5, 0, -(2**31)], np.int32))
    assert np.asarray(lax.div(x, np.int32(0))).tolist() == [-1, -1, -1, -1]
    assert np.asarray(lax.rem(x, np.int32(0))).tolist() == [5, -5, 0, -(2**31)]
    assert np.asarray(lax.div(x, np.int32(-1))).tolist() == [-5, 5, 0, -(2**31)]
    assert np.asarray(lax.rem(x, np.int32(-1))).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("y", [-3, -2, -1, 0, 1, 2, 3, 40])
def test_integer_pow_is_that_of_jax(y: int) -> None:
    for dtype in ("float32", "int8", "uint8", "int32"):
        x = edges(dtype)
        if y < 0 and dtype != "float32":
            continue
        expected = np.asarray(jax.lax.integer_pow(x, y))
        assert_same(np.asarray(lax.integer_pow(from_host(x), y)), expected, 3e-5, f"{dtype}, {y}")


def test_negative_powers_of_integers_truncate() -> None:
    x = from_host(np.array([-2, -1, 0, 1, 2], np.int32))
    assert np.asarray(lax.pow(x, np.int32(-2))).tolist() == [0, 1, 0, 1, 0]
    assert np.asarray(lax.pow(x, np.int32(-3))).tolist() == [0, -1, 0, 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8"])
def test_clamp_is_that_of_jax(dtype: str) -> None:
    low, x, high = (a.ravel() for a in np.meshgrid(*[edges(dtype)] * 3))
    expected = np.asarray(jax.lax.clamp(low, x, high))
    found = np.asarray(lax.clamp(*map(from_host, (low, x, high))))
    assert_same(found, expected, 0, dtype)


def test_rounding_methods() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, np.inf, np.nan], np.float32)
    for method in (0, 1):
        expected = np.asarray(jax.lax.round(x, jax.lax.RoundingMethod(method)))
        assert_same(np.asarray(lax.round(from_host(x), method)), expected, 0, str(method))


def test_select_clamps_its_index() -> None:
    which = from_host(np.array([-3, 0, 1, 2, 9], np.int32))
    cases = [from_host(np.full(5, v, np.float32)) for v in (10, 20, 30)]
    assert np.asarray(lax.select_n(which, *cases)).tolist() == [10, 10, 20, 30, 30]
    assert np.asarray(lax.select_n(which, *cases[:2])).tolist() == [10, 10, 20, 20, 20]


F = from_host(np.arange(3, dtype=np.float32))
I = from_host(np.arange(3, dtype=np.int32))


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda: lax.add(F, I), "add requires arguments to have equal dtypes, got float32, int32"),
        (lambda: lax.add(I, 2.5), "equal dtypes, got int32, float32"),
        (lambda: lax.add(F, 1j), "equal dtypes, got float32, complex64"),
        (lambda: lax.add(F, True), "equal dtypes, got float32, bool"),
        (lambda: lax.sin(I), "sin does not accept dtype int32"),
        (lambda: lax.bitwise_and(F, F), "and does not accept dtype float32"),
        (lambda: lax.add(lax.eq(F, F), lax.eq(F, F)), "add does not accept dtype bool"),
        (
            lambda: lax.add(F, np.zeros(4, np.float32)),
            r"add got incompatible shapes for broadcasting: \(3,\), \(4,\)",
        ),
        (lambda: lax.select(F, F, F), "`which` must be boolean"),
        (lambda: lax.select(lax.eq(F, F), F, I), "cases must have the same dtypes"),
        (lambda: lax.select_n(I, F, np.zeros(2, np.float32)), "incompatible shapes"),
        (lambda: lax.clamp(I, F, F), "equal dtypes"),
    ],
)
def test_refusals_name_what_is_wrong(call: object, phrase: str) -> None:
    with pytest.raises(TypeError, match=phrase) as caught:
        call()  # type: ignore[operator]
    assert len(str(caught.value).splitlines()) == 3


def test_python_scalars_take_the_dtype_of_the_array() -> None:
    jaxpr, _ = stage(lambda x: [lax.mul(2, x), lax.add(x, 1.0)], [ShapedArray((3,), F.dtype)])
    assert "mul 2.0 a" in str(jaxpr)
    assert "add a 1.0" in str(jaxpr)
    with pytest.raises(OverflowError):
        lax.add(from_host(np.zeros(2, np.int8)), 1000)


@pytest.mark.parametrize(
    ("function", "weak"),
    [
        (lambda: lax.add(1.0, 2), True),
        (lambda: lax.abs(1j), True),
        (lambda: lax.abs(-1.5), True),
        (lambda: lax.eq(1.0, 2.0), False),
        (lambda: lax.is_finite(1.0), False),
        (lambda: lax.add(1.0, np.float32(2)), False),
        (lambda: lax.select(np.bool_(True), 1.0, 2.0), True),
        (lambda: lax.select(np.bool_(True), 1.0, np.float32(2)), False),
        (lambda: lax.convert_element_type(1.0, "float32"), False),
        (lambda: lax.pow(2.0, I), True),
    ],
)
def test_weak_types(function: object, weak: bool) -> None:
    assert function().weak_type is weak  # type: ignore[operator]


def test_stop_gradient_of_integers_is_the_operand() -> None:
    assert lax.stop_gradient(I) is I


def test_double_precision() -> None:
    with override(enable_x64=True):
        x = from_host(np.array([1e-9, 0.5]))
        assert lax.sin(x).dtype == np.float64
        np.testing.assert_allclose(np.asarray(lax.expm1(x)), np.expm1([1e-9, 0.5]), rtol=1e-15)


@pytest.mark.parametrize("x", [7.0, -7.0, 1.0, -1.0])
@pytest.mark.parametrize("y", [3.0, -3.0])
def test_remainders_fall_by_the_quotient_rounded_to_zero(x: float, y: float) -> None:
    assert kiln.grad(lax.rem, (0, 1))(x, y) == (1, -np.trunc(x / y))
