"""Primitives that get their rules one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core import ShapedArray
from kiln.core.primitive import Primitive, primitives
from kiln.core.trace import state
from kiln.errors import MissingRule
from kiln.ir.rewrite import eliminate_dead_code
from kiln.lax import sin_p


def identity(name: str = "same") -> Primitive:
    p = Primitive(name)
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    return p


def test_rules_are_returned_so_that_they_decorate() -> None:
    p = Primitive("p")

    @p.def_impl
    def impl(x: Any) -> Any:
        return x

    @p.def_abstract_eval
    def abstract(x: Any) -> Any:
        return x

    assert p.impl is impl
    assert abstract(3) == 3
    assert p.bind(2) == 2


def test_impl_is_called_with_what_was_passed() -> None:
    seen: list[Any] = []
    p = identity()
    p.def_impl(lambda *xs: seen.extend(xs))
    array = jnp.ones(2)
    p.bind(1, 2.0, array)
    assert seen[:2] == [1, 2.0]
    assert seen[2] is array


@pytest.mark.parametrize("primitive", [sin_p, kiln.extend.core.primitives.checkpoint_p])
def test_impl_may_be_set_to_what_it_was(primitive: Primitive) -> None:
    def f(x: Any) -> Any:
        return kiln.checkpoint(jnp.sin)(x)

    before = primitive.impl
    calls = []

    def counted(*args: Any, **params: Any) -> Any:
        calls.append(args)
        return before(*args, **params)

    primitive.def_impl(counted)
    try:
        expected = f(2.0)
    finally:
        primitive.def_impl(before)
    assert f(2.0) == expected
    assert len(calls) <= 1


def test_kilns_own_primitives_have_an_impl() -> None:
    assert float(sin_p.impl(0.0)) == 0.0


def test_what_a_primitive_says_of_itself() -> None:
    p = Primitive("p")
    assert (p.name, repr(p), p.multiple_results) == ("p", "p", False)
    p.multiple_results = True
    assert p.multiple
    assert not p.call_primitive
    assert not p.map_primitive
    assert p.get_bind_params({"k": 1}) == {"k": 1}
    assert p in set(primitives())
    assert sin_p in set(primitives())
    assert not p.has("infer")
    p.def_abstract_eval(lambda x: [x])
    assert p.has("infer")
    assert not Primitive("p").has("infer")


def test_a_primitive_can_be_bound_under_a_given_trace() -> None:
    assert identity().bind_with_trace(state.root, (3.0,), None, {}) == 3.0


def test_types_may_be_anything_with_a_shape_and_a_dtype() -> None:
    p = identity()
    p.def_abstract_eval(lambda x: kiln.ShapeDtypeStruct((2, *x.shape), np.float32))
    assert p.abstract_eval(ShapedArray((3,), np.dtype(np.int32)))[0].shape == (2, 3)
    p.def_abstract_eval(lambda x: ShapedArray(x.shape, jnp.float32))
    assert kiln.eval_shape(p.bind, jnp.ones(3, int)).dtype == np.float32


@pytest.mark.parametrize(("multiple", "found"), [(False, 3), (False, [1]), (True, 3), (True, [3])])
def test_what_is_no_type_is_refused(multiple: bool, found: Any) -> None:
    p = identity("wrong")
    p.multiple_results = multiple
    p.def_abstract_eval(lambda x: found)
    with pytest.raises(TypeError, match="abstract evaluation of 'wrong'") as caught:
        kiln.make_jaxpr(p.bind)(1.0)
    assert len(str(caught.value).splitlines()) == 3


def test_without_a_rule_for_types_nothing_is_recorded() -> None:
    with pytest.raises(MissingRule, match=r"def_abstract_eval\(rule\)"):
        kiln.make_jaxpr(Primitive("bare").bind)(1.0)


def test_equations_with_effects_are_kept() -> None:
    p = identity("speaks")
    p.def_effectful_abstract_eval(lambda x: (x, {"an effect"}))

    def f(x: Any) -> Any:
        p.bind(x)
        return x

    jaxpr = kiln.make_jaxpr(f)(1.0).jaxpr
    assert len(eliminate_dead_code(jaxpr)[0].eqns) == 1
    types, effects = p.abstract_eval(ShapedArray((), np.dtype(np.float32)))
    assert types.shape == ()
    assert len(effects) == 1
    silent = kiln.make_jaxpr(lambda x: (identity().bind(x), x)[1])(1.0).jaxpr
    assert eliminate_dead_code(silent)[0].eqns == []


def test_a_subclass_of_another_library_may_define_rules_as_methods() -> None:
    class Twice(Primitive):
        name = "twice"

        def infer(self, x: Any) -> Any:
            return x

        def expand(self, x: Any) -> Any:
            return x + x

        def jvp(self, primals: Any, tangents: Any) -> Any:
            return self.bind(*primals), self.bind(*tangents)

        def transpose(self, ct: Any, x: Any) -> Any:
            return [self.bind(ct)]

    twice = Twice()
    assert kiln.jit(kiln.grad(twice.bind))(1.0) == 2.0
    with pytest.raises(MissingRule, match="primitive_batchers"):
        kiln.vmap(twice.bind)(jnp.ones(2))
