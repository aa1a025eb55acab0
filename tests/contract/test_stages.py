"""Section 12: ahead of time."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import ShapeDtypeStruct, stages, tree
from kiln.base.options.config import override
from kiln.ir.shardings.sharding import SingleDeviceSharding
from kiln.ir.types import ShapedArray
from tests.contract.marks import contract

x = np.arange(3, dtype=np.float32)


def f32(*shape: int, weak_type: bool = False) -> ShapedArray:
    return ShapedArray(shape, np.dtype(np.float32), weak_type)


def scaled(x, y):
    return {"out": x * y + 1}


@contract("12.0")
def test_types_of_the_stages() -> None:
    f = kiln.jit(scaled)
    traced = f.trace(x, 2.0)
    assert isinstance(f, stages.Wrapped)
    assert isinstance(traced, stages.Traced)
    assert isinstance(traced.lower(), stages.Lowered)
    assert isinstance(f.lower(x, 2.0), stages.Lowered)
    assert isinstance(f.lower(x, 2.0).compile(), stages.Compiled)


@contract("12.1", "12.3")
def test_what_a_stage_knows() -> None:
    def f(x, y, n, *, d):
        return {"out": x * y + n, "all": [d["a"]]}

    args, kwargs = (x, 2.0), {"d": {"a": ShapeDtypeStruct((2, 2), "int32")}}
    traced = kiln.jit(f, static_argnums=2).trace(*args, 3, **kwargs)
    lowered = traced.lower()
    in_avals = ((f32(3), f32(weak_type=True)), {"d": {"a": ShapedArray((2, 2), np.dtype("i4"))}})
    out = {"out": ShapeDtypeStruct((3,), "float32"), "all": [ShapeDtypeStruct((2, 2), "int32")]}
    for stage in (traced, lowered, lowered.compile()):
        assert stage.in_tree == tree.structure((args, kwargs))
        assert stage.in_avals == in_avals
        assert stage.out_tree == tree.structure(out)
        assert stage.out_info == out
        assert stage.donate_argnums == ()
        infos = tree.leaves(stage.args_info)
        assert tree.structure(stage.args_info) == stage.in_tree
        assert [i.shape for i in infos] == [(3,), (), (2, 2)]
        assert [str(i.dtype) for i in infos] == ["float32", "float32", "int32"]
        assert [i.donated for i in infos] == [False] * 3
    assert traced.fun_name == "f"
    assert str(traced.jaxpr).startswith("{ lambda ; a:f32[3] b:f32[] c:i32[2,2]. let")
    assert kiln.jit(scaled).lower(x, 2.0).in_tree == tree.structure(((x, 2.0), {}))


@contract("12.1", "12.2", "12.3")
def test_stages_show_the_call_as_it_was_made() -> None:
    def f(a, n, b, c=1.0, *, d):
        return a - b + c - d["x"] + n

    calls = [
        ((x,), {"b": x, "n": 3, "d": {"x": 2}, "c": 1}),
        ((x, 3, x), {"d": {"x": 2}, "c": x}),
        ((), {"d": {"x": 2}, "c": x, "b": x + 1, "a": x, "n": 4}),
        ((x, 3, x, 4.0), {"d": {"x": 2}}),
        ((x,), {"d": {"x": 2}, "c": x, "b": x + 1, "n": 4}),
    ]
    jitted = kiln.jit(f, static_argnames="n", donate_argnames="c")
    for args, kwargs in calls:
        shown = (args[:1] + args[2:], {k: v for k, v in kwargs.items() if k != "n"})
        traced = jitted.trace(*args, **kwargs)
        lowered = traced.lower()
        compiled = lowered.compile()
        kept = {k: v for k, v in kwargs.items() if k != "n"}
        for stage in (traced, lowered, compiled):
            assert stage.in_tree == tree.structure(shown)
            found = tree.map(lambda info: (info.shape, info.donated), stage.args_info)
            donated = [i for i, info in enumerate(tree.leaves(stage.args_info)) if info.donated]
            assert list(stage.donate_argnums) == donated
            shapes = tree.map(np.shape, shown, is_leaf=lambda v: not isinstance(v, (dict, tuple)))
            assert tree.map(lambda pair: pair[0], found, is_leaf=_is_pair) == shapes
            (where,) = [
                path for path, info in tree.leaves_with_path(stage.args_info) if info.donated
            ]
            assert "'c'" in str(where) or len(args) == 4
        assert tree.structure(compiled.input_shardings) == compiled.in_tree
        want = f(*args, **kwargs)
        np.testing.assert_array_equal(compiled(*shown[0], **kept), want)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bool)


@contract("12.1")
def test_shardings_of_what_was_compiled() -> None:
    here = SingleDeviceSharding(kiln.devices()[0])
    there = SingleDeviceSharding(kiln.devices()[-1])
    f = kiln.jit(scaled)
    compiled = f.lower(x, y=2.0).compile()
    assert compiled.input_shardings == ((here,), {"y": here})
    assert compiled.output_shardings == {"out": here}
    struct = ShapeDtypeStruct((3,), "float32", sharding=there)
    compiled = f.lower(struct, 2.0).compile()
    assert compiled.input_shardings == ((there, there), {})
    assert compiled.output_shardings == {"out": there}
    out = compiled(kiln.device_put(x, there), 2.0)["out"]
    assert out.sharding == there
    np.testing.assert_array_equal(out, x * 2 + 1)


@contract("12.1")
def test_objects_of_the_compiler() -> None:
    lowered = kiln.jit(scaled).lower(x, 2.0)
    assert "stablehlo.multiply" in str(lowered.compiler_ir())
    assert "multiply" in lowered.compiler_ir("hlo").as_hlo_text()
    assert lowered.compile().runtime_executable() is not None
    with pytest.raises(ValueError, match="no-such-dialect"):
        lowered.compiler_ir("no-such-dialect")


@contract("12.3")
def test_costs_and_memory() -> None:
    def f(x, y):
        return x * y + 1

    lowered = kiln.jit(f).lower(x, x)
    compiled = lowered.compile()
    for cost in (lowered.cost_analysis(), compiled.cost_analysis()):
        assert cost["flops"] == 6
        assert cost["bytes accessed"] > 0
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 24
    assert memory.output_size_in_bytes == 12
    assert memory.alias_size_in_bytes == 0
    assert memory.temp_size_in_bytes >= 0


@contract("12.3", "4.6")
def test_donation_in_the_stages() -> None:
    a = jnp.asarray(x)
    lowered = kiln.jit(lambda y, x: x * 2 + y, donate_argnums=1).lower(1.0, a)
    compiled = lowered.compile()
    for stage in (lowered, compiled):
        assert [info.donated for info in tree.leaves(stage.args_info)] == [False, True]
        assert stage.donate_argnums == (1,)
    assert compiled.memory_analysis().alias_size_in_bytes == 12
    assert not a.is_deleted()
    np.testing.assert_array_equal(compiled(1.0, a), x * 2 + 1)
    assert a.is_deleted()


@contract("5.4")
def test_compiler_options() -> None:
    def f(x):
        return x * 2

    fast = {"xla_backend_optimization_level": 0}
    np.testing.assert_array_equal(kiln.jit(f, compiler_options={})(x), x * 2)
    np.testing.assert_array_equal(kiln.jit(f, compiler_options=fast)(x), x * 2)
    lowered = kiln.jit(f).lower(x)
    np.testing.assert_array_equal(lowered.compile(compiler_options=fast)(x), x * 2)
    np.testing.assert_array_equal(lowered.compile({})(x), x * 2)
    unknown = kiln.jit(f, compiler_options={"no_such_option": 1})
    with pytest.raises(RuntimeError, match="no_such_option"):
        unknown(x)
    with pytest.raises(RuntimeError, match="no_such_option"):
        unknown.lower(x).compile()
    with pytest.raises(RuntimeError, match="no_such_option"):
        lowered.compile(compiler_options={"no_such_option": 1})
    with pytest.raises(TypeError, match="dict"):
        kiln.jit(f, compiler_options=[("a", 1)])


@contract("5.4")
def test_compiler_options_are_for_the_outermost_jit() -> None:
    inner = kiln.jit(lambda x: x * 2, compiler_options={"xla_backend_optimization_level": 0})
    for transformed in (
        lambda: kiln.jit(lambda x: inner(x) + 1)(x),
        lambda: kiln.grad(lambda x: inner(x).sum())(x),
        lambda: kiln.vmap(inner)(x),
        lambda: kiln.make_jaxpr(inner)(x),
    ):
        with pytest.raises(ValueError, match="compiler_options"):
            transformed()
    plain = kiln.jit(lambda x: x * 2, compiler_options={})
    np.testing.assert_array_equal(kiln.jit(lambda x: plain(x) + 1)(x), x * 2 + 1)


@contract("12.2")
def test_types_in_place_of_values() -> None:
    f = kiln.jit(lambda tree, y: tree["a"] * y + tree["b"][0])
    struct = ShapeDtypeStruct((3,), "float32")
    for args in (
        ({"a": struct, "b": [ShapeDtypeStruct((), "float32")]}, ShapeDtypeStruct((), "float32")),
        ({"a": struct, "b": [np.float32(1)]}, np.float32(2)),
        ({"a": x, "b": [ShapeDtypeStruct((), "float32")]}, np.float32(2)),
    ):
        assert f.trace(*args).out_info == struct
        out = f.lower(*args).compile()({"a": x, "b": [np.float32(1)]}, np.float32(2))
        np.testing.assert_array_equal(out, x * 2 + 1)


@contract("12.4")
def test_texts() -> None:
    lowered = kiln.jit(scaled).lower(x, 2.0)
    for text in (lowered.as_text(), lowered.as_text("stablehlo"), lowered.as_text(dialect=None)):
        assert "scaled" in text
        assert "multiply" in text
        assert "add" in text
    compiled = lowered.compile().as_text()
    assert "scaled" in compiled
    assert "mul" in compiled
    assert "fmul" in lowered.as_text("llvm")
    with override(engine="xla"):
        assert "multiply" in kiln.jit(scaled).lower(x, 2.0).compile().as_text()
    with pytest.raises(ValueError, match="no-such-dialect"):
        lowered.as_text("no-such-dialect")


@contract("12.5")
def test_calling_what_was_compiled() -> None:
    traces: list = []

    def f(x, y, n):
        traces.append(1)
        return x * y * n

    compiled = kiln.jit(f, static_argnums=2).lower(x, 2.0, 3).compile()
    for args in (
        (x, 2.0),
        (x.astype(np.float64), 2.0),
        (jnp.asarray(x), np.float32(2)),
        (x, np.float64(2)),
    ):
        np.testing.assert_array_equal(compiled(*args), x * 6)
    assert len(traces) == 1
    with pytest.raises(
        TypeError, match=r"x compiled with float32\[3\] and called with float32\[4\]"
    ):
        compiled(np.ones(4, np.float32), 2.0)
    with pytest.raises(TypeError, match=r"x compiled with float32\[3\] and called with int32\[3\]"):
        compiled(np.arange(3), 2.0)
    for wrong in ((x,), (x, 2.0, 3), ((x, 2.0),), (x, [2.0])):
        with pytest.raises(TypeError, match="structure"):
            compiled(*wrong)
    with pytest.raises(TypeError, match=r"y compiled with float32\[\] and called with int32\[\]"):
        compiled(x, 2)
    with pytest.raises(TypeError, match="y is not a valid"):
        compiled(x, "2")
    for transformed in (
        lambda: kiln.grad(lambda y: compiled(x, y).sum())(2.0),
        lambda: kiln.vmap(compiled, in_axes=(0, None))(x[None], 2.0),
        lambda: kiln.jit(compiled)(x, 2.0),
    ):
        with pytest.raises(TypeError, match="transform"):
            transformed()
    assert len(traces) == 1


@contract("12.6")
def test_eval_shape_allocates_nothing() -> None:
    runs: list = []

    def f(x, y):
        kiln.debug.callback(lambda: runs.append(1))
        return {"out": x * y, "n": 1}

    huge = ShapeDtypeStruct((10**8, 10**8), "float32")
    expected = {"out": huge, "n": ShapeDtypeStruct((), "int32", weak_type=True)}
    assert kiln.eval_shape(f, huge, 2.0) == kiln.jit(f).eval_shape(huge, y=2.0) == expected
    assert runs == []


@contract("12.6")
def test_shape_dtype_struct() -> None:
    struct = ShapeDtypeStruct((2, 3), np.float32)
    assert (struct.shape, struct.dtype, struct.ndim, struct.size) == ((2, 3), np.float32, 2, 6)
    assert len(struct) == 2
    assert not struct.weak_type
    assert struct == ShapeDtypeStruct([2, 3], "float32")
    assert hash(struct) == hash(ShapeDtypeStruct((2, 3), "float32"))
    assert struct != ShapeDtypeStruct((2, 3), "int32")
    assert struct != ShapeDtypeStruct((3, 2), "float32")
    assert struct != ShapeDtypeStruct((2, 3), "float32", weak_type=True)
    assert struct.sharding is None
    here = SingleDeviceSharding(kiln.devices()[0])
    placed = ShapeDtypeStruct((2, 3), "float32", sharding=here)
    assert placed.sharding == here
    assert placed != struct
    assert repr(here) in repr(placed)
    with pytest.raises(ValueError, match="sharding"):
        ShapeDtypeStruct((2, 3), "float32", sharding="here")
    assert repr(struct) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    with pytest.raises((TypeError, ValueError), match="dtype"):
        ShapeDtypeStruct((2,), None)
    with pytest.raises(TypeError):
        len(ShapeDtypeStruct((), "float32"))
