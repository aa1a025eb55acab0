"""The primitives of references: recorded, and under transformations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.core.staging import eval_jaxpr
from kiln.ir.analysis.checker import check


def use(x: Any) -> Any:
    ref = kiln.new_ref(x)
    ref[0] = x[1]
    ref[...] += 1.0
    jnp.sin(ref[1:])
    ref.addupdate(x[:2], slice(2))
    return kiln.ref.swap(ref, 2, 5.0), kiln.freeze(ref)


TEXT = """\
{ lambda ; a:f32[3]. let
  b:Ref{f32[3]} = new_ref a
  c:f32[1] = slice[limit_indices=(2,) start_indices=(1,) strides=None] a
  d:f32[] = squeeze[dimensions=(0,)] c
  b[0] <- d
  e:f32[3] <- b[...]
  f:f32[3] = add e 1.0
  b[...] <- f
  g:f32[2] <- b[1:]
  _:f32[2] = sin g
  h:f32[2] = slice[limit_indices=(2,) start_indices=(0,) strides=None] a
  b[:2] += h
  i:f32[], b[2] <- b[2], 5.0
  j:f32[3] = freeze b
in (i, j) }"""


def test_the_text_of_a_program() -> None:
    jaxpr = kiln.make_jaxpr(use)(jnp.ones(3))
    check(jaxpr.jaxpr)
    assert str(jaxpr) == TEXT


def test_programs_can_be_applied() -> None:
    closed = kiln.make_jaxpr(use)(jnp.ones(3))
    x = jnp.array([1.0, 2.0, 4.0])
    wanted = use(x)
    for run in (eval_jaxpr, kiln.jit(eval_jaxpr, static_argnums=(0, 1))):
        found = run(closed.jaxpr, (), x)
        assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    rows = kiln.vmap(lambda x: eval_jaxpr(closed.jaxpr, (), x))(jnp.stack([x, x]))
    assert rows[1][1].tolist() == wanted[1].tolist()
    slopes = kiln.jacrev(lambda x: eval_jaxpr(closed.jaxpr, (), x)[1])(x)
    assert slopes.tolist() == kiln.jacrev(lambda x: use(x)[1])(x).tolist()


def test_types_are_checked_while_recording() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match="Invalid shape for `swap`"):
        kiln.jit(lambda: ref.__setitem__(..., 1.0))()
    with pytest.raises(ValueError, match="Cannot store a Ref"):
        kiln.jit(lambda: ref.__setitem__(..., ref))()


def outside() -> Any:
    return kiln.new_ref(jnp.zeros(3))


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_moving_values_do_not_leave_a_derivative(through: Any) -> None:
    ref = outside()

    def loss(x: Any) -> Any:
        ref[0] = x
        return x

    for derivative in (kiln.grad(through(loss)), through(kiln.grad(loss))):
        with pytest.raises(ValueError, match="differentiated value on a non-differentiated"):
            derivative(1.0)
    with pytest.raises(ValueError, match="differentiated value"):
        kiln.jvp(through(loss), (1.0,), (1.0,))
    with pytest.raises(ValueError, match="differentiated value"):
        kiln.grad(lambda x: ref.addupdate(x, 1) or x)(1.0)


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_values_of_examples_do_not_leave_vmap(through: Any) -> None:
    ref = outside()
    for write in (
        lambda x: ref.__setitem__(0, x),
        lambda x: ref.addupdate(x, 0),
        lambda x: ref.__setitem__(0, 1.0),
    ):
        for mapped in (kiln.vmap(through(write)), through(kiln.vmap(write))):
            with pytest.raises(ValueError, match="vmapped value on an unbatched"):
                mapped(jnp.ones(2))


def test_reading_under_vmap_inside_jit() -> None:
    @kiln.jit
    def f(ref: Any, i: Any) -> Any:
        return kiln.vmap(lambda j: ref[j])(i)

    assert f(kiln.new_ref(jnp.arange(4)), jnp.array([3, 1])).tolist() == [3, 1]


def test_stopped_values_are_written_under_a_derivative_inside_jit() -> None:
    ref = outside()

    @kiln.jit
    def f(ref: Any, x: Any) -> Any:
        def loss(x: Any) -> Any:
            ref[1] = lax.stop_gradient(x) * 3
            return x**2 + ref[1] * x

        return kiln.grad(loss)(x)

    assert float(f(ref, 2.0)) == 10
    assert ref[...].tolist() == [0, 6, 0]


def test_derivatives_through_branches_of_a_traced_choice() -> None:
    def loss(x: Any) -> Any:
        ref = kiln.new_ref(x)
        lax.cond(x[0] > 1, lambda: ref.__setitem__(0, x[1]), lambda: ref.__setitem__(0, x[2]))
        return jnp.sum(ref[...] ** 2)

    for f in (loss, kiln.jit(loss)):
        assert kiln.grad(f)(jnp.array([2.0, 3.0, 4.0])).tolist() == [0, 12, 8]
        assert kiln.grad(f)(jnp.array([0.0, 3.0, 4.0])).tolist() == [0, 6, 16]
    rows = jnp.array([[2.0, 3.0, 4.0], [0.0, 3.0, 4.0]])
    assert kiln.vmap(kiln.grad(loss))(rows).tolist() == [[0, 12, 8], [0, 6, 16]]


def test_second_derivatives() -> None:
    def loss(x: Any) -> Any:
        ref = kiln.new_ref(x)
        ref[0] = x[0] * x[1]
        return jnp.sum(ref[...] ** 2)

    assert kiln.hessian(loss)(jnp.array([1.0, 2.0])).tolist() == [[8, 8], [8, 4]]


def test_programs_with_references_are_checked() -> None:
    with override(check=True):
        assert kiln.jit(use)(jnp.ones(3))[1].tolist() == [3, 3, 5]


def test_under_compile_time_evaluation_a_variable_is_out_of_reach() -> None:
    def f(ref: Any) -> Any:
        with kiln.ensure_compile_time_eval():
            return ref[...]

    with pytest.raises(kiln.errors.UnexpectedTracerError):
        kiln.jit(f)(outside())
    assert np.asarray(kiln.jit(lambda ref: ref[...])(outside())).sum() == 0
