"""The primitive that runs a stored program: its types, its map, its engines."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.base.options.config import override
from kiln.control.exported_call import PortableProgram, call_exported_p, expanded, sizes_of_call
from kiln.core.engines.engine import Program, engine
from kiln.engines.xla.stablehlo.mlir import to_artifact
from kiln.export.exported import portable
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
B, N = symbol("b"), symbol("n")


def declared(*avals: ShapedArray, out: tuple[ShapedArray, ...] = ()) -> PortableProgram:
    """Return a program with types and nothing else."""
    names = tuple(f"args[{i}]" for i in range(len(avals)))
    return PortableProgram("f", b"", avals, out, names, (), ("cpu",))


SIZED = declared(
    ShapedArray((B, 3), F32), ShapedArray((2 * B,), F32), out=(ShapedArray((B + 1,), I32),)
)


@pytest.fixture(scope="module")
def program() -> PortableProgram:
    return portable(export.export(kiln.jit(lambda x, y: (jnp.sin(x) * y, y)))(jnp.ones(3), 2.0))


def test_results_have_the_sizes_of_the_call():
    given = [ShapedArray((4, 3), F32), ShapedArray((8,), F32)]
    assert call_exported_p.infer(*given, program=SIZED) == [ShapedArray((5,), I32)]
    assert sizes_of_call(SIZED, given) == {"b": 4}
    named = [ShapedArray((N, 3), F32), ShapedArray((2 * N,), F32)]
    assert call_exported_p.infer(*named, program=SIZED) == [ShapedArray((N + 1,), I32)]


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        (((4, 3, 1), (8,)), r"Rank mismatch for args\[0\]"),
        (((4, 4), (8,)), r"Shape mismatch for args\[0\].shape\[1\]: it is 4 and should be 3"),
        (((4, 3), (9,)), r"Shape mismatch for args\[1\].shape\[0\]: it is 9 and should be 8"),
        (((0, 3), (0,)), "Expected value >= 1 for the size 'b', got 0"),
        (((N, 3), (8,)), "sizes that cannot be compared"),
    ],
)
def test_other_shapes_are_refused(shapes, match):
    with pytest.raises(ValueError, match=match):
        call_exported_p.infer(*[ShapedArray(s, F32) for s in shapes], program=SIZED)


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match=r"Dtype mismatch for args\[0\]: expected float32, got i"):
        call_exported_p.infer(ShapedArray((4, 3), I32), ShapedArray((8,), F32), program=SIZED)


def test_a_size_without_a_solution():
    with pytest.raises(ValueError, match=r"the size 'b' has no solution for args\[0\]"):
        sizes_of_call(declared(ShapedArray((2 * B,), F32)), [ShapedArray((3,), F32)])


def test_eager_and_jitted(program):
    x = np.float32([1, 2, 3])
    for run in (call_exported_p.bind, kiln.jit(call_exported_p.bind, static_argnames="program")):
        out, y = run(x, 2.0, program=program)
        np.testing.assert_allclose(out, np.sin(x) * 2, rtol=1e-6)
        assert float(y) == 2.0


@pytest.mark.parametrize("axes", [(0, None), (1, 0), (None, 0)])
def test_stacks(program, axes):
    rng = np.random.default_rng(0)
    x = rng.normal(size={0: (2, 3), 1: (3, 2), None: (3,)}[axes[0]]).astype(np.float32)
    y = np.float32(1.5) if axes[1] is None else np.float32([0.5, 2])
    found = kiln.vmap(lambda x, y: call_exported_p.bind(x, y, program=program), axes)(x, y)
    expected = kiln.vmap(lambda x, y: (jnp.sin(x) * y, y), axes)(x, y)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_which_engines_run_it(program):
    x = np.float32([1, 2, 3])

    @kiln.jit
    def f(x):
        return call_exported_p.bind(x + 1, 2.0, program=program)[0] * 3

    with kiln.explain_fallbacks() as records:
        found = f(x)
    assert not list(records)
    np.testing.assert_allclose(found, np.sin(x + 1) * 6, rtol=1e-5)
    for name in ("reference", "xla"):
        with override(engine=name):
            np.testing.assert_allclose(f(x), found, rtol=1e-6)


def test_what_kiln_lacks_runs_on_xla():
    cubes = "stablehlo.custom_call @cubes(%x) : (tensor<3xf32>) -> tensor<3xf32>"
    head = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32>"
    text = f"{head} {{ %y = {cubes} return %y : tensor<3xf32> }}"
    aval = ShapedArray((3,), F32)
    stored = to_artifact(text)
    program = PortableProgram("f", stored, (aval,), (aval,), ("x",), (0,), ("cpu",))
    jaxpr = kiln.make_jaxpr(lambda x: call_exported_p.bind(x, program=program))(jnp.ones(3))
    reason = engine("native").compiler.unsupported(Program(jaxpr.jaxpr, "f"))
    assert "stablehlo.custom_call @cubes has no counterpart in kiln" in reason
    assert "the exported function f is StableHLO that only XLA runs" in reason
    with override(engine="reference"), pytest.raises(NotImplementedError, match="@cubes"):
        kiln.jit(lambda x: call_exported_p.bind(x, program=program))(jnp.ones(3))


def test_jaxprs_are_kept_for_each_type(program):
    three, four = (ShapedArray((n,), F32) for n in (3, 4))
    scalar = ShapedArray((), F32)
    weak = scalar.with_(weak_type=True)
    sized = portable(
        export.export(kiln.jit(jnp.cumsum))(
            kiln.ShapeDtypeStruct(export.symbolic_shape("n,"), "float32")
        )
    )
    assert expanded(program, [three, scalar]) is expanded(program, [three, weak])
    assert expanded(sized, [three]) is expanded(sized, [three])
    assert expanded(sized, [four]).in_avals == [four]
    named = ShapedArray((N,), F32)
    assert expanded(sized, [named]) is expanded(sized, [named])
    assert expanded(sized, [named]).in_avals == [named]


def test_it_has_no_derivative(program):
    with pytest.raises(NotImplementedError, match="call_exported"):
        kiln.grad(lambda x: call_exported_p.bind(x, 2.0, program=program)[0].sum())(jnp.ones(3))


def test_programs_are_shown_in_short(program):
    assert "program=<<lambda>: " in str(
        kiln.make_jaxpr(lambda x: call_exported_p.bind(x, 2.0, program=program))(jnp.ones(3))
    )
