"""Calls of functions in C++, by XLA's typed interface."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, ffi
from kiln.base.options.config import override
from kiln.errors import JaxRuntimeError
from kiln.interpreters import mlir
from kiln.ir.analysis.digest import Unnameable, portable_bytes

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
SOURCE = Path(__file__).with_name("foreign_functions.cc")
NAMES = ("scaled", "row_sums", "attributes", "count")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module", autouse=True)
def _library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if COMPILER is None or not Path(ffi.include_dir(), "xla", "ffi", "api", "ffi.h").exists():
        pytest.skip("needs a C++ compiler, and the headers that jaxlib brings")
    built = tmp_path_factory.mktemp("foreign") / "functions.so"
    options = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{ffi.include_dir()}"]
    subprocess.run([COMPILER, *options, str(SOURCE), "-o", str(built)], check=True)
    library = ctypes.cdll.LoadLibrary(str(built))
    for name in NAMES:
        ffi.register_ffi_target(f"kiln_{name}", ffi.pycapsule(getattr(library, name)))
    return library


def struct(shape: Any, dtype: Any = np.float32) -> kiln.ShapeDtypeStruct:
    return kiln.ShapeDtypeStruct(shape, dtype)


def scaled(x: Any, by: float = 2, **options: Any) -> Any:
    return ffi.ffi_call("kiln_scaled", struct(x.shape), **options)(x, by=np.float32(by))


def row_sums(x: Any, **options: Any) -> Any:
    types = (struct(x.shape[:-1]), struct(x.shape[:-1], np.int32))
    return ffi.ffi_call("kiln_row_sums", types, **options)(x)


def test_calls() -> None:
    for run in (scaled, kiln.jit(scaled)):
        np.testing.assert_array_equal(run(X), 2 * X)
    np.testing.assert_array_equal(scaled(X, 3), 3 * X)
    outs = row_sums(X)
    assert type(outs) is tuple
    np.testing.assert_array_equal(outs[0], [3, 12])
    np.testing.assert_array_equal(outs[1], [2, 2])
    many = ffi.ffi_call("kiln_row_sums", [struct((2,)), struct((2,), np.int32)])
    assert type(many(jnp.asarray(X))) is list


def test_inside_programs() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return scaled(carry) + row, row_sums(row[None])[0][0]

        return kiln.lax.scan(step, jnp.zeros(3), x)

    carry, sums = kiln.jit(f)(X)
    np.testing.assert_array_equal(carry, 2 * X[0] + X[1])
    np.testing.assert_array_equal(sums, [3, 12])


def test_attributes() -> None:
    with override(enable_x64=True):
        out = ffi.ffi_call("kiln_attributes", struct((7,), np.float64))(
            flag=True,
            small=np.int32(-3),
            large=1 << 40,
            real=1.5,
            text='a"b\nc',
            many=np.arange(4),
            nested={"inner": 7},
        )
    np.testing.assert_array_equal(out, [1, -3, 1 << 40, 1.5, 5, 6, 7])


@pytest.mark.parametrize(
    ("method", "rows"),
    [
        ("sequential", 1),
        ("sequential_unrolled", 1),
        ("expand_dims", 2),
        ("broadcast_all", 2),
        ("legacy_vectorized", 2),
    ],
)
def test_stacks(method: str, rows: int) -> None:
    sums, counts = kiln.vmap(lambda x: row_sums(x, vmap_method=method))(X)
    np.testing.assert_array_equal(sums, [3, 12])
    np.testing.assert_array_equal(counts, [rows, rows])
    sums, _ = kiln.vmap(lambda x: row_sums(x, vmap_method=method), 1)(X)
    np.testing.assert_array_equal(sums, [3, 5, 7])


def test_stacks_need_a_method() -> None:
    with pytest.raises(NotImplementedError, match=r"only supported .* Got vmap_method=None"):
        kiln.vmap(scaled)(X)


def test_layouts() -> None:
    turned = scaled(X, input_layouts=[(1, 0)], output_layouts=(0, 1))
    np.testing.assert_array_equal(turned, 2 * X.T.reshape(2, 3))
    layout = kiln.experimental.layout.Layout((1, 0))
    both = scaled(X, input_layouts=[layout], output_layouts=layout)
    np.testing.assert_array_equal(both, 2 * X)
    mapped = kiln.vmap(
        lambda x: scaled(x, input_layouts=[(1, 0)], vmap_method="broadcast_all"), out_axes=0
    )(np.stack([X, X + 1]))
    np.testing.assert_array_equal(mapped[1], 2 * (X + 1).T.reshape(2, 3))


def test_results_in_the_place_of_operands() -> None:
    x = jnp.asarray(X)
    np.testing.assert_array_equal(
        kiln.jit(lambda x: scaled(x, input_output_aliases={0: 0}))(x), 2 * X
    )
    np.testing.assert_array_equal(x, X)


def test_effects_happen() -> None:
    count = ffi.ffi_call("kiln_count", struct((1,), np.int32), has_side_effect=True)
    before = int(count()[0])

    @kiln.jit
    def f(x: Any) -> Any:
        count()
        return x

    f(1), f(2)
    assert int(count()[0]) == before + 3


def test_derivatives_are_custom_ones() -> None:
    with pytest.raises(ValueError, match="`kiln_scaled` cannot be differentiated"):
        kiln.grad(lambda x: scaled(x).sum())(X)
    double = kiln.custom_jvp(lambda x: scaled(x))
    double.defjvp(lambda primals, tangents: (scaled(*primals), scaled(*tangents)))
    slope = kiln.jvp(double, (X,), (np.ones_like(X),))[1]
    np.testing.assert_array_equal(slope, np.full_like(X, 2))


def test_errors_of_functions() -> None:
    with pytest.raises(JaxRuntimeError, match="row_sums: an array has no rows"):
        ffi.ffi_call("kiln_row_sums", (struct(()), struct((), np.int32)))(np.float32(1))
    with pytest.raises(JaxRuntimeError, match="Wrong number of attributes"):
        ffi.ffi_call("kiln_scaled", struct((2, 3)))(X)
    with pytest.raises(JaxRuntimeError, match="registered for kiln_nobody"):
        ffi.ffi_call("kiln_nobody", struct((2, 3)))(X)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"vmap_method": "all"}, "vmap_method must be one of"),
        ({"legacy_backend_config": "x"}, "requires custom_call_api_version < 4"),
        ({"custom_call_api_version": 2}, "attributes requires a custom call API version"),
        ({"input_layouts": []}, "The number of input arguments .1. must equal"),
        ({"input_layouts": [(0, 0)]}, "is not an order of the axes"),
        ({"input_output_aliases": {1: 0}}, "with input index 1 outside the range"),
        ({"input_output_aliases": {0: 1}}, "with output index 1 outside the range"),
        ({"input_output_aliases": {0: 0}, "input_layouts": [(1, 0)]}, "or another layout"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match) as found:
        scaled(X, **options)
    assert len(str(found.value).splitlines()) == 3


def test_results_without_a_type() -> None:
    with pytest.raises(ValueError, match="must have 'shape' and 'dtype'"):
        ffi.ffi_call("kiln_scaled", [3])
    with pytest.raises(ValueError, match="register_ffi_type_id is not supported"):
        ffi.register_ffi_type_id("name", None)


def test_lowering_rules() -> None:
    double_p = kiln.extend.core.Primitive("double")
    double_p.def_abstract_eval(lambda x, **_: x)
    mlir.register_lowering(double_p, ffi.ffi_lowering("kiln_scaled"), platform="cpu")
    found = kiln.jit(lambda x: double_p.bind(x, by=np.float32(5)))(X)
    np.testing.assert_array_equal(found, 5 * X)


def test_engines_that_do_not_call_them() -> None:
    with override(engine="reference"), pytest.raises(NotImplementedError, match="by XLA alone"):
        kiln.jit(scaled)(X)


def test_what_is_compiled_is_not_for_other_processes() -> None:
    jaxpr = kiln.make_jaxpr(scaled)(X).jaxpr
    with pytest.raises(Unnameable, match="ForeignTarget"):
        portable_bytes(jaxpr)


def test_exports_name_them() -> None:
    with pytest.raises(ValueError, match="no compatibility guarantees: kiln_scaled"):
        export.export(kiln.jit(scaled))(X)
    checks = [export.DisabledSafetyCheck.custom_call("kiln_scaled")]
    made = export.export(kiln.jit(scaled), disabled_checks=checks)(X)
    np.testing.assert_array_equal(export.deserialize(made.serialize()).call(X), 2 * X)


def test_attributes_have_the_name_that_they_have_in_programs_of_jax() -> None:
    def fun(x: Any) -> Any:
        return ffi.ffi_call("anything", struct((3,), np.float32))(x, count=np.int32(2))

    text = kiln.jit(fun).lower(np.ones(3, np.float32)).as_text("stablehlo")
    assert 'mhlo.backend_config = {"count" = 2 : i32}' in text
