"""Lowering rules of other libraries' primitives, on all engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.config import override
from kiln.core import ShapedArray
from kiln.errors import UnsupportedPrimitive
from kiln.extend.core import Primitive
from kiln.interpreters import mlir, xla
from kiln.lax import sin_p
from tests.unit.interpreters.outside import ENGINES

X = np.arange(3, dtype=np.float32)


def primitive(name: str = "p", multiple: bool = False) -> Primitive:
    p = Primitive(name)
    p.multiple_results = multiple
    p.def_abstract_eval(lambda x, **_: [x, x] if multiple else x)
    return p


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lowering_is_a_function_of_arrays(engine: str) -> None:
    p = primitive()
    mlir.register_lowering(
        p, mlir.lower_fun(lambda x, *, k: jnp.sin(x) * k, multiple_results=False)
    )
    with override(engine=engine):
        np.testing.assert_allclose(kiln.jit(lambda x: p.bind(x, k=2.0))(X), 2 * np.sin(X), 1e-6)
        # Without an impl, eager calls run the lowering.
        np.testing.assert_allclose(p.bind(X, k=3.0), 3 * np.sin(X), 1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_results(engine: str) -> None:
    p = primitive(multiple=True)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: (x, x + 1)))
    with override(engine=engine):
        a, b = kiln.jit(p.bind)(X)
        np.testing.assert_array_equal(b - a, np.ones(3))


def test_the_context_has_the_types() -> None:
    p, seen = primitive(), []

    def rule(context: Any, x: Any) -> Any:
        seen.append(context)
        context.module_context.add_keepalive(object())
        return [x + 1]

    assert mlir.register_lowering(p, rule) is rule
    kiln.jit(p.bind)(X)
    context = seen[0]
    assert context.primitive is p
    assert list(map(str, context.avals_in)) == list(map(str, context.avals_out)) == ["float32[3]"]
    assert context.replace(avals_in=[]).avals_in == []
    assert context.module_context.platforms == ("cpu",)


def test_the_rule_of_the_platform_is_taken() -> None:
    p = primitive()
    for platform, k in ((None, 1.0), ("cpu", 2.0), ("cuda", 3.0)):
        rule = mlir.lower_fun(lambda x, k=k: x * k, multiple_results=False)
        mlir.register_lowering(p, rule, platform=platform)
    assert kiln.jit(p.bind)(X).tolist() == (2 * X).tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_primitive_without_lowering_is_refused(engine: str) -> None:
    p = primitive("only_an_impl")
    p.def_impl(lambda x: x)
    with override(engine=engine):
        assert p.bind(X) is X
        with pytest.raises((NotImplementedError, ValueError), match="only_an_impl") as caught:
            kiln.jit(p.bind)(X)
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    assert engine == "native" or "register_lowering" in text


def test_by_default_the_error_says_what_to_write() -> None:
    p = primitive("only_an_impl")
    with pytest.raises(UnsupportedPrimitive, match=r"mlir.register_lowering\(primitive"):
        kiln.jit(p.bind)(X)


def test_a_lowering_with_another_number_of_results_is_refused() -> None:
    p = primitive()
    mlir.register_lowering(p, mlir.lower_fun(lambda x: (x, x)))
    with pytest.raises(TypeError, match="2 results, the primitive has 1") as caught:
        kiln.jit(p.bind)(X)
    assert len(str(caught.value).splitlines()) == 3


def test_lowerings_of_kilns_own_primitives_stay() -> None:
    with pytest.raises(ValueError, match="cannot be replaced"):
        mlir.register_lowering(sin_p, mlir.lower_fun(lambda x: x, multiple_results=False))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("effect", [False, True])
def test_a_lowering_may_call_python(engine: str, effect: bool) -> None:
    p, seen = primitive(), []

    def callback(x: Any) -> Any:
        seen.append(np.asarray(x).tolist())
        return (np.asarray(x) * 10,)

    def rule(context: Any, x: Any) -> Any:
        outs, token, keep = mlir.emit_python_callback(
            context,
            callback,
            None,
            [x],
            context.avals_in,
            context.avals_out,
            has_side_effect=effect,
        )
        assert token is keep is None
        return outs

    mlir.register_lowering(p, rule)
    with override(engine=engine):
        assert kiln.jit(p.bind)(X).tolist() == [0.0, 10.0, 20.0]
    assert seen == [[0.0, 1.0, 2.0]]


def test_apply_primitive_compiles_one_operation() -> None:
    p = primitive()
    p.def_impl(lambda x: xla.apply_primitive(p, x))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 5, multiple_results=False))
    assert p.bind(X).tolist() == [5.0, 6.0, 7.0]


def test_every_effect_is_lowerable() -> None:
    mlir.lowerable_effects.add_type(int)
    assert mlir.lowerable_effects.contains(int)


def test_a_primitive_of_another_type_than_its_lowering_is_refused() -> None:
    p = primitive()
    p.def_abstract_eval(lambda x: ShapedArray((7,), x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x, multiple_results=False))
    with pytest.raises(AssertionError, match="mend the lowering"), override(engine="xla"):
        kiln.jit(p.bind)(X)


def test_a_lowering_that_is_set_again_is_seen() -> None:
    p = Primitive("again")
    p.def_abstract_eval(lambda a: a)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 1.0, multiple_results=False))
    inner = kiln.jit(lambda x: p.bind(x))
    results = [
        lambda: kiln.jit(lambda x: p.bind(x))(6.0),
        lambda: kiln.jit(lambda x: inner(x) * 1.0)(6.0),
        lambda: kiln.jit(lambda x: kiln.lax.cond(x > 0, p.bind, lambda y: y, x))(6.0),
    ]
    assert [float(run()) for run in results] == [7.0] * 3
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 10.0, multiple_results=False))
    assert [float(run()) for run in results] == [16.0] * 3


def test_a_platform_must_exist() -> None:
    p = primitive()
    with pytest.raises(NotImplementedError, match="unknown platform cup"):
        mlir.register_lowering(p, lambda context, x: [x], platform="cup")
    mlir.register_lowering(p, lambda context, x: [x], platform="cuda")
