"""Section 9: dtypes, weak types, the edges of arithmetic, and how arrays print."""

from __future__ import annotations

import threading
import warnings

import ml_dtypes
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from tests.contract.marks import contract

SIGNED = ["int8", "int16", "int32"]
UNSIGNED = ["uint8", "uint16", "uint32"]
FLOATS = ["float16", "bfloat16", "float32"]
STRONG = ["bool", *UNSIGNED, *SIGNED, *FLOATS, "complex64"]


def of(dtype):
    """Return a strongly typed scalar array."""
    return jnp.ones((), dtype)


def result(a, b):
    """Return dtype and weakness of a sum, the same eagerly and compiled."""
    eager, compiled = a + b, kiln.jit(lambda a, b: a + b)(a, b)
    assert (eager.dtype, eager.weak_type) == (compiled.dtype, compiled.weak_type)
    return str(eager.dtype), eager.weak_type


@contract("9.1")
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("int64", "int32"),
        ("uint64", "uint32"),
        ("float64", "float32"),
        ("complex128", "complex64"),
    ],
)
def test_wide_inputs_become_narrow_silently(wide, narrow) -> None:
    value = np.ones(3, wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for out in (
            kiln.jit(lambda x: x)(value),
            jnp.asarray(value),
            jnp.array(value),
            of("bool") + value,
        ):
            assert out.dtype == narrow
    with kiln.enable_x64(True):
        assert kiln.jit(lambda x: x)(value).dtype == wide


@contract("9.1")
def test_explicit_requests_for_wide_types_warn() -> None:
    for make in (
        lambda: jnp.zeros(3, "float64"),
        lambda: jnp.asarray(1.0, np.float64),
        lambda: jnp.ones(3).astype("float64"),
    ):
        with pytest.warns(UserWarning, match="float64"):
            assert make().dtype == np.float32
    with warnings.catch_warnings(), kiln.enable_x64(True):
        warnings.simplefilter("error")
        assert jnp.zeros(3, "float64").dtype == np.float64


@contract("9.1")
def test_enable_x64_is_a_context_of_its_thread() -> None:
    seen: list = []
    with kiln.enable_x64(True):
        assert jnp.asarray(1.0).dtype == np.float64
        thread = threading.Thread(target=lambda: seen.append(jnp.asarray(1.0).dtype))
        thread.start()
        thread.join()
        with kiln.enable_x64(False):
            assert jnp.asarray(1.0).dtype == np.float32
        assert jnp.asarray(1).dtype == np.int64
    assert seen == [np.dtype("float32")]
    assert jnp.asarray(1.0).dtype == np.float32


@contract("9.2")
@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (True, "bool", False),
        (1, "int32", True),
        (1.0, "float32", True),
        (1j, "complex64", True),
        (np.int8(1), "int8", False),
        (np.float32(1), "float32", False),
        (np.float64(1), "float32", False),
        (np.int64(1), "int32", False),
        (np.bool_(True), "bool", False),
        (ml_dtypes.bfloat16(1), "bfloat16", False),
    ],
    ids=lambda value: f"{type(value).__name__}-{value}",
)
def test_types_of_scalars(value, dtype, weak) -> None:
    for out in (jnp.asarray(value), kiln.jit(lambda x: x)(value), kiln.jit(lambda: value)()):
        assert (str(out.dtype), out.weak_type) == (dtype, weak)


@contract("9.3")
def test_lattice_of_strong_types() -> None:
    for chain in (["bool", *UNSIGNED], ["bool", *SIGNED], ["bool", "int8", "bfloat16", "float32"]):
        for i, low in enumerate(chain):
            for high in chain[i:]:
                assert result(of(low), of(high)) == (high, False)
                assert result(of(high), of(low)) == (high, False)
    assert result(of("uint8"), of("int8")) == ("int16", False)
    assert result(of("uint16"), of("int16")) == ("int32", False)
    assert result(of("bfloat16"), of("float16")) == ("float32", False)
    for low in STRONG:
        assert result(of(low), of("complex64")) == ("complex64", False)
    for integer in [*UNSIGNED, *SIGNED]:
        for floating in FLOATS:
            assert result(of(integer), of(floating)) == (floating, False)


@contract("9.3")
@pytest.mark.parametrize("dtype", STRONG)
def test_weak_operands_do_not_widen(dtype) -> None:
    kinds = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    kind = 2 if dtype in FLOATS else kinds[np.dtype(dtype).kind]
    for scalar, weak_kind, default in ((1, 1, "int32"), (1.0, 2, "float32"), (1j, 3, "complex64")):
        expected = (dtype, False) if kind >= weak_kind else (default, True)
        if weak_kind == 3 and kind == 2:
            # Every floating type is below complex64, so the operand need not become weak.
            expected = ("complex64", False)
        assert result(of(dtype), scalar) == expected
        assert result(scalar, of(dtype)) == expected


@contract("9.3")
def test_integers_meeting_weak_floats() -> None:
    for dtype in [*UNSIGNED, *SIGNED]:
        assert result(of(dtype), 1.0)[0] == "float32"
    assert result(jnp.asarray(1), 1.0) == ("float32", True)
    assert result(jnp.asarray(1), of("int8")) == ("int8", False)


@contract("9.4")
def test_which_results_are_weak() -> None:
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    assert (weak + 1).weak_type
    assert (jnp.asarray(1) + 1.0).weak_type
    mixed = jnp.int32(1) + 1.0
    assert (mixed.dtype, mixed.weak_type) == (np.float32, True)
    assert not (of("float32") + 1.0).weak_type
    for keep in (
        kiln.jit(lambda x: x),
        jnp.sin,
        jnp.abs,
        lambda x: x**2,
        lambda x: jnp.where(True, x, 1.0),
        lambda x: lax.cond(True, lambda: x, lambda: x),
        lambda x: lax.while_loop(lambda c: c < 1.0, lambda c: c * 2.0, x),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2.0, x),
    ):
        assert keep(weak).weak_type
    for lose in (
        lambda x: jnp.sum(x, dtype="float32"),
        lambda x: jnp.asarray(x, "float32"),
        lambda x: x * jnp.ones((2,)),
        lambda x: x > 1,
    ):
        assert not lose(weak).weak_type


@contract("9.4")
def test_constructors() -> None:
    for strong in (
        jnp.arange(3),
        jnp.arange(3.0),
        jnp.zeros(3),
        jnp.zeros(()),
        jnp.ones((2, 3)),
        jnp.linspace(0, 1, 3),
        jnp.array([1, 2]),
        jnp.array([1.0]),
        jnp.full((2,), 1, "int32"),
    ):
        assert not strong.weak_type
    for weak in (jnp.asarray(1), jnp.asarray(1.0), jnp.full((), 1), jnp.zeros_like(1)):
        assert weak.weak_type


@contract("9.5")
def test_division_and_remainder_of_integers() -> None:
    quotient = jnp.int32(7) / jnp.int32(2)
    assert (quotient, quotient.dtype) == (3.5, np.float32)
    for a in (7, -7):
        for b in (2, -2):
            x, y = jnp.asarray([a]), jnp.asarray([b])
            assert (x // y)[0] == a // b
            assert (x % y)[0] == a % b
            assert kiln.jit(lambda x, y: x // y)(x, y)[0] == a // b
            assert kiln.jit(lambda x, y: x % y)(x, y)[0] == a % b
            assert (x.astype("float32") % y)[0] == a % b


@contract("9.5")
def test_reductions_of_integers() -> None:
    for dtype, total in (
        ("int8", "int32"),
        ("int16", "int32"),
        ("uint8", "uint32"),
        ("uint16", "uint32"),
        ("bool", "int32"),
    ):
        x = jnp.ones(300, dtype)
        assert (x.sum().dtype, x.sum()) == (total, 300)
    x = jnp.arange(4)
    for statistic in (x.mean(), x.var(), x.std()):
        assert statistic.dtype == np.float32
    assert x.mean() == 1.5
    assert jnp.argmax(jnp.ones(3)).dtype == jnp.argmin(x).dtype == np.int32


@contract("9.6")
def test_integers_wrap_and_constants_must_fit() -> None:
    top = jnp.asarray([127], "int8")
    assert (top + jnp.int8(1))[0] == -128
    assert (jnp.asarray([2**31 - 1]) + 1)[0] == -(2**31)
    assert (jnp.asarray([0], "uint8") - jnp.uint8(1))[0] == 255
    for overflow in (
        lambda: jnp.asarray(300, "int8"),
        lambda: jnp.array([1, -1], "uint8"),
        lambda: jnp.asarray(2**31),
        lambda: jnp.asarray([0]) + 2**31,
        lambda: kiln.jit(lambda x: x + 2**31)(1),
        lambda: kiln.jit(lambda x: jnp.asarray(300, "int8"))(1),
    ):
        with pytest.raises(OverflowError):
            overflow()
    assert jnp.asarray([1.9, -1.9, 2.5]).astype("int32").tolist() == [1, -1, 2]


@contract("9.8")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_edge_semantics(engine, compiled) -> None:
    run = kiln.jit if compiled else lambda fun: fun
    i, j = jnp.asarray([5, -5, 0]), jnp.asarray([0, 0, 0])
    assert run(lax.div)(i, j).tolist() == [-1, -1, -1]
    assert run(lambda a, b: a // b)(i, j).tolist()[0] == -2
    wild = jnp.asarray([np.nan, 1e20, -1e20, np.inf, -np.inf])
    saturated = run(lambda a: a.astype("int32"))(wild).tolist()
    assert saturated == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]
    one = jnp.asarray([1, -8])
    for width in (32, 40):
        assert run(lambda a, w=width: a << w)(one).tolist() == [0, 0]
        assert run(lambda a, w=width: a >> w)(one).tolist() == [0, -1]
        logical = run(lambda a, w=width: lax.shift_right_logical(a, jnp.full_like(a, w)))
        assert logical(one).tolist() == [0, 0]
    for dtype in ("bfloat16", "float16"):
        many = jnp.full((4096,), 0.0625, dtype) + jnp.asarray(0, dtype)
        assert run(jnp.sum)(many) == 256
    unsorted = jnp.asarray([np.nan, 1.0, -0.0, 0.0, -np.inf, np.inf])
    in_order = run(jnp.sort)(unsorted)
    np.testing.assert_array_equal(in_order, [-np.inf, -0.0, 0.0, 1.0, np.inf, np.nan])
    assert run(jnp.argsort)(jnp.asarray([0.0, -0.0, 1.0, -1.0])).tolist() == [3, 0, 1, 2]
    assert np.isnan(run(jnp.maximum)(jnp.nan, 1.0))
    assert np.isnan(run(jnp.minimum)(1.0, jnp.nan))
    assert np.isnan(run(jnp.max)(unsorted))


@contract("9.7")
@pytest.mark.parametrize(
    ("array", "text"),
    [
        (lambda: jnp.arange(4) ** 8, "Array([   0,    1,  256, 6561], dtype=int32)"),
        (lambda: kiln.jit(lambda x: x)(30), "Array(30, dtype=int32, weak_type=True)"),
        (lambda: jnp.zeros((0,), "int32"), "Array([], shape=(0,), dtype=int32)"),
        (lambda: jnp.ones((2, 2)), "Array([[1., 1.],\n       [1., 1.]], dtype=float32)"),
        (lambda: jnp.asarray(True), "Array(True, dtype=bool)"),
    ],
)
def test_text_of_arrays(array, text) -> None:
    assert repr(array()) == text
    assert str(array()) == str(np.asarray(array()))
