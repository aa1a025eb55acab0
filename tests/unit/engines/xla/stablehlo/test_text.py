"""Types and constants as MLIR text."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kiln import _runtime
from kiln.base.dtypes import float0
from kiln.base.dtypes.kinds import KeyDtype
from kiln.engines.xla.runtime import buffers, client
from kiln.engines.xla.stablehlo import text
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray

NUMBERS = [0.0, -0.0, 1.0, 0.1, -2.5, 1e-5, 1e30, 5e-324, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(
    ("shape", "dtype", "written"),
    [
        ((2, 3), np.float32, "tensor<2x3xf32>"),
        ((), np.bool_, "tensor<i1>"),
        ((4,), np.uint8, "tensor<4xui8>"),
        ((0, 2), np.complex64, "tensor<0x2xcomplex<f32>>"),
        ((1,), ml_dtypes.bfloat16, "tensor<1xbf16>"),
        ((1,), ml_dtypes.float8_e4m3fn, "tensor<1xf8E4M3FN>"),
        ((5,), ml_dtypes.int4, "tensor<5xi4>"),
    ],
)
def test_types(shape, dtype, written):
    assert text.tensor_type(ShapedArray(shape, np.dtype(dtype))) == written


def test_extended_types_are_written_as_their_data():
    assert text.tensor_type(ShapedArray((3,), KeyDtype("fry"))) == "tensor<3xui64>"
    assert text.tensor_type(ShapedArray((3,), float0)) == "tensor<3xi1>"


def test_types_xla_lacks_are_refused():
    with pytest.raises(NotImplementedError, match="float6_e2m3fn"):
        text.element_type(ml_dtypes.float6_e2m3fn)


def test_named_sizes_are_not_known():
    aval = ShapedArray((symbol("n"), 3), np.dtype(np.float32))
    assert text.tensor_type(aval) == "tensor<?x3xf32>"


def read_back(value: np.ndarray) -> np.ndarray:
    aval = ShapedArray(value.shape, value.dtype)
    kind = text.tensor_type(aval)
    program = (
        f"func.func public @main() -> {kind} {{\n"
        f"%0 = stablehlo.constant dense<{text.dense(value)}> : {kind}\nreturn %0 : {kind} }}"
    )
    here = client.client("cpu")
    raw = here.compile(program, name="constant")
    launcher = _runtime.Launcher(raw.execute_sharded, [here.handler(aval)], "constant")
    return buffers.get(launcher([])[0])


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32,
        np.float64,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e5m2,
        np.complex64,
        np.complex128,
    ],
)
def test_floats_read_back_bit_for_bit(dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.array(NUMBERS, np.float64).astype(dtype)
        if value.dtype.kind == "c":
            value = value + value.dtype.type(1j) * value[::-1]
    for part in (value, value[:1], value[-1].reshape(()), np.tile(value, 10).reshape(10, -1)):
        got = read_back(np.ascontiguousarray(part))
        assert got.dtype == part.dtype
        assert got.tobytes() == part.tobytes()


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint64, np.int64, ml_dtypes.int4, ml_dtypes.uint4]
)
def test_integers_read_back(dtype):
    base = np.array([0, 1, 1, 0]) if dtype is np.bool_ else np.array([0, 1, 7, 5])
    for part in (base.reshape(2, 2), base[:1], np.tile(base, 40), base[:0]):
        got = read_back(part.astype(dtype))
        assert (got == part.astype(dtype)).all()


def test_short_floats_stay_readable():
    assert text.scalar(2.0, np.dtype(np.float32)) == "2.0"
    assert text.scalar(1e-5, np.dtype(np.float64)) == "1.0e-05"
    assert text.scalar(0.1, np.dtype(np.float32)) == "0x3DCCCCCD"


def test_symbols():
    assert text.symbol("my fn<λ>") == "my_fn___"
    assert text.symbol("3d") == "_3d"
    assert text.symbol("") == "_"
