"""Edge semantics of compiled element-wise operations, and that NumPy meanings agree with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kiln
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.engines.engine import Program, engine
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.lax import linalg
from kiln.ops import identity
from kiln.ops.elements import conversion, elementwise, rounding
from kiln.ops.elements.families import Elementwise
from kiln.sharding import NamedSharding, PartitionSpec, make_mesh
from tests.unit.engines.xla.programs import XLA, apply, aval, one_equation, run

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def of(dtype, *values):
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", SIGNED)
def test_signed_integers_at_the_edges(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    bits = np.iinfo(dtype).bits
    x, y = of(dtype, 5, -5, low, low, 7, 0), of(dtype, 0, 0, -1, 1, -2, 0)
    assert apply(elementwise.div_p, x, y).tolist() == [-1, -1, low, low, -3, -1]
    assert apply(elementwise.rem_p, x, y).tolist() == [5, -5, 0, 0, 1, 0]
    assert apply(elementwise.abs_p, of(dtype, low, -3)).tolist() == [low, 3]
    assert apply(elementwise.neg_p, of(dtype, low)).tolist() == [low]
    assert apply(elementwise.sign_p, of(dtype, low, 0, 3)).tolist() == [-1, 0, 1]
    x, n = of(dtype, -5, -5, -5, -5, high), of(dtype, 1, bits - 1, bits, -1, bits)
    assert apply(elementwise.shift_left_p, x, n).tolist() == [-10, low, 0, 0, 0]
    assert apply(elementwise.shift_right_logical_p, x, n).tolist() == [high - 2, 1, 0, 0, 0]
    assert apply(elementwise.shift_right_arithmetic_p, x, n).tolist() == [-3, -1, -1, -1, 0]
    assert apply(elementwise.add_p, of(dtype, high), of(dtype, 1)).tolist() == [low]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_integers_at_the_edges(dtype):
    high, bits = int(np.iinfo(dtype).max), np.iinfo(dtype).bits
    x, y = of(dtype, 5, 0, high), of(dtype, 0, 0, 2)
    assert apply(elementwise.div_p, x, y).tolist() == [high, high, high // 2]
    assert apply(elementwise.rem_p, x, y).tolist() == [5, 0, 1]
    assert apply(elementwise.sign_p, of(dtype, 0, 3)).tolist() == [0, 1]
    assert apply(elementwise.abs_p, of(dtype, high)).tolist() == [high]
    x, n = of(dtype, high, high, high), of(dtype, bits - 1, bits, high)
    assert apply(elementwise.shift_right_logical_p, x, n).tolist() == [1, 0, 0]
    assert apply(elementwise.shift_right_arithmetic_p, x, n).tolist() == [high] * 3
    assert apply(elementwise.population_count_p, of(dtype, high, 0)).tolist() == [bits, 0]
    assert apply(elementwise.clz_p, of(dtype, high, 0, 1)).tolist() == [0, bits, bits - 1]


def test_integer_powers_wrap_around():
    x, y = of(np.int32, 3, 2, -1, -1, 2, 0, 0, 1), of(np.int32, 100, 100, -3, -2, -1, 0, -1, -9)
    expected = [3**100 % 2**32 - (2**32 if 3**100 % 2**32 >= 2**31 else 0), 0, -1, 1, 0, 1, 0, 1]
    assert apply(elementwise.pow_p, x, y).tolist() == expected
    assert apply(elementwise.pow_p, of(np.uint8, 3), of(np.uint8, 200)).tolist() == [3**200 % 256]
    assert apply(elementwise.integer_pow_p, of(np.int32, 3, -2), y=5).tolist() == [243, -32]
    assert apply(elementwise.integer_pow_p, of(np.float32, 2), y=-3).tolist() == [0.125]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_become_integers_by_saturation(dtype):
    x = of(dtype, np.nan, np.inf, -np.inf, 3.75, -3.75, 300)
    for target in (np.int8, np.uint8, np.int32, np.uint32, np.int64):
        info = np.iinfo(target)
        whole = [3, max(-3, info.min), min(300, info.max)]
        got = apply(
            conversion.convert_element_type_p, x, new_dtype=np.dtype(target), weak_type=False
        )
        assert got.tolist() == [0, info.max, info.min, *whole]
    got = apply(conversion.convert_element_type_p, x, new_dtype=np.dtype(bool), weak_type=False)
    assert got.all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_signed_zeros(dtype):
    nan = np.nan
    x, y = of(dtype, nan, 1, -0.0, 0.0), of(dtype, 1, nan, 0.0, -0.0)
    high, low = apply(elementwise.max_p, x, y), apply(elementwise.min_p, x, y)
    assert np.isnan(high[:2].astype(float)).all()
    assert np.isnan(low[:2].astype(float)).all()
    assert np.signbit(high[2:].astype(float)).tolist() == [False, False]
    assert np.signbit(low[2:].astype(float)).tolist() == [True, True]
    low, high = of(dtype, 0)[0], of(dtype, 1)[0]
    clamped = apply(elementwise.clamp_p, low, of(dtype, nan, 5, -5), high)
    assert clamped.astype(float).tolist()[1:] == [1, 0]
    assert np.isnan(float(clamped[0]))
    assert np.signbit(apply(elementwise.sign_p, of(dtype, -0.0)).astype(float)[0])


def test_the_order_of_complex_numbers_is_lexicographic():
    x, y = of(np.complex64, 1 + 2j, 1 + 2j, 2), of(np.complex64, 1 + 3j, 1 + 2j, 1 + 9j)
    assert apply(elementwise.max_p, x, y).tolist() == [1 + 3j, 1 + 2j, 2]


def test_what_crashes_xla_is_refused_first():
    z = of(np.complex64, 1)
    with pytest.raises(TypeError, match="remainder"):
        apply(elementwise.rem_p, z, z)
    with pytest.raises(TypeError, match="does not support bool or complex"):
        apply(
            conversion.bitcast_convert_type_p,
            of(np.complex64, 1, 2),
            new_dtype=np.dtype(np.complex128),
        )


def test_selection():
    pick = elementwise.select_n_p
    cases = [of(np.float32, *[k] * 4) for k in range(3)]
    which = of(np.int32, -3, 1, 2, 9)
    assert apply(pick, which, *cases).tolist() == [0, 1, 2, 2]
    assert apply(pick, np.array(True), *cases[:2]).tolist() == [1] * 4
    assert apply(pick, which > 1, np.float32(5), cases[0]).tolist() == [5, 5, 0, 0]
    assert apply(pick, np.int32(1), *cases).tolist() == [1] * 4


SAMPLES = {
    "b": [False, True],
    "i": [0, 1, 2, 3, 7, 8, 31, 33, 127, -1, -2, -7, -128],
    "u": [0, 1, 2, 3, 7, 8, 31, 33, 128, 255],
    "f": [0.0, 0.5, 1.0, -1.0, 1.5, -2.5, 3.0, 0.9, -0.9, 10.0, np.inf, -np.inf, np.nan],
    "c": [0.5 + 1j, 1.5 - 2j, -1 + 0.5j, 2 + 2j],
}
# Their parameters are tested above.
OTHERS = {
    "select_n",
    "clamp",
    "integer_pow",
    "round",
    "convert_element_type",
    "bitcast_convert_type",
}
PRIMITIVES = {
    p.name: p
    for p in [*vars(elementwise).values(), *vars(conversion).values()]
    if isinstance(p, Elementwise) and p.name not in OTHERS
}


def operands(primitive, dtype):
    kind = "u" if dtypes.issubdtype(dtype, np.unsignedinteger) else np.dtype(dtype).kind
    x = np.array(SAMPLES["f" if kind == "V" else kind]).astype(dtype)
    for count in (1, 2):
        try:
            primitive.infer(*[aval(1, dtype=np.dtype(dtype))] * count)
            with np.errstate(all="ignore"):
                primitive.numpy(*[x] * count)
        except Exception:  # noqa: BLE001, the number of operands is what works
            continue
        return [part.reshape(-1) for part in np.meshgrid(*[x] * count)]
    return None


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_compiled_code_agrees_with_the_meaning(name):
    primitive = PRIMITIVES[name]
    eqns, invars, values = [], [], []
    for dtype in (np.bool_, np.int8, np.int32, np.uint8, np.uint32, *FLOATS, np.complex64):
        accepted = any(dtypes.issubdtype(dtype, kind) for kind in primitive.accepts)
        arrays = operands(primitive, dtype) if accepted else None
        if arrays is None or (name == "rem" and dtype is np.complex64):
            continue
        mine = [Var(aval(*v.shape, dtype=v.dtype)) for v in arrays]
        result = primitive.infer(*[v.aval for v in mine])
        eqns.append(Eqn(primitive, mine, [Var(result)], {}))
        invars += mine
        values += arrays
    assert eqns
    program = Program(Jaxpr([], invars, eqns, [eqn.outvars[0] for eqn in eqns]), name)
    compiled = run(XLA.compiler.compile(program), *values)
    for got, meant in zip(
        compiled, engine("reference").compiler.compile(program)(values), strict=True
    ):
        assert got.dtype == meant.dtype
        is_complex = got.dtype.kind == "c"
        tolerance = 1e-5 if is_complex else {2: 2e-2, 4: 3e-6}.get(got.dtype.itemsize, 1e-12)
        wide = np.complex128 if is_complex else np.float64
        np.testing.assert_allclose(
            got.astype(wide),
            meant.astype(wide),
            rtol=tolerance,
            atol=tolerance / 10,
            err_msg=str(got.dtype),
        )


def test_rounding():
    x = of(np.float32, 0.5, 1.5, 2.5, -0.5, 0.49999997)
    away, even = rounding.RoundingMethod
    assert apply(rounding.round_p, x, rounding_method=away).tolist() == [1, 2, 3, -1, 0]
    assert apply(rounding.round_p, x, rounding_method=even).tolist() == [0, 2, 2, 0, 0]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_operands_pass_a_barrier(count):
    barrier = identity.optimization_barrier_p
    avals = [aval(k + 1, dtype=np.int32) for k in range(count)]
    values = [np.full(k + 1, k, np.int32) for k in range(count)]
    got = run(XLA.compiler.compile(one_equation(barrier, avals, avals)), *values)
    assert [g.tolist() for g in got] == [v.tolist() for v in values]


@pytest.mark.parametrize("fun", [linalg.cholesky, linalg.lu, linalg.qr, linalg.eigh, linalg.svd])
def test_devices_divide_a_stack_of_matrices_without_an_exchange(fun):
    stack = np.eye(3, dtype=np.float32) + np.arange(4, dtype=np.float32)[:, None, None]
    mesh = make_mesh((2,), ("i",))
    x = kiln.device_put(stack, NamedSharding(mesh, PartitionSpec("i")))
    compiled = kiln.jit(fun).lower(x).compile()
    assert "all-" not in compiled.as_text()
    # Vectors of one value are not unique: another LAPACK has others.
    with override(engine="xla"):
        want = kiln.tree.leaves(fun(stack))
    got = kiln.tree.leaves(compiled(x))
    for a, b in zip(got, want, strict=True):
        assert a.sharding.num_devices == 2
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
