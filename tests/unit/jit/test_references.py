"""Calls of jitted functions with references."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.control.regions.region import memoized
from kiln.jit.references import OnContents, on_contents


@kiln.jit
def count(ref: Any, x: Any) -> Any:
    ref[...] += x
    return ref[...] * 2


def test_the_contents_are_kept_between_calls() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    start = ref[...]
    outs = [count(ref, jnp.float32(i)).tolist() for i in (1, 2, 3)]
    assert outs == [[2, 2, 2], [6, 6, 6], [12, 12, 12]]
    assert ref[...].tolist() == [6, 6, 6]
    assert start.tolist() == [0, 0, 0]


def test_what_was_read_is_not_overwritten() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    kept = []
    for i in range(4):
        count(ref, jnp.float32(1))
        if i % 2:
            kept.append(ref[...])
    count(ref, jnp.float32(1))
    assert [x.tolist() for x in kept] == [[2, 2, 2], [4, 4, 4]]


def test_a_content_that_nothing_else_refers_to_is_donated() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    count(ref, jnp.float32(1))
    before = ref.content
    count(ref, jnp.float32(1))
    assert before.is_deleted()
    assert ref[...].tolist() == [2, 2, 2]


def test_contents_that_are_other_results_too_are_not() -> None:
    @kiln.jit
    def f(a: Any, b: Any, x: Any) -> Any:
        a[...] = x
        b[...] = x + 1
        return b[...]

    a, b, x = kiln.new_ref(jnp.zeros(3)), kiln.new_ref(jnp.zeros(3)), jnp.ones(3)
    first = f(a, b, x)
    second = f(a, b, x + 1)
    assert (first.tolist(), second.tolist()) == ([2, 2, 2], [3, 3, 3])
    assert x.tolist() == [1, 1, 1]
    assert (a[...].tolist(), b[...].tolist()) == ([2, 2, 2], [3, 3, 3])


def test_one_program_serves_all_references_of_a_type() -> None:
    traces = []

    @kiln.jit
    def f(ref: Any) -> None:
        traces.append(1)
        ref[...] += 1.0

    for _ in range(3):
        f(kiln.new_ref(jnp.zeros(3)))
    f(kiln.new_ref(jnp.zeros(4)))
    assert len(traces) == 2


def test_closed_over_references() -> None:
    total = kiln.new_ref(0)

    @kiln.jit
    def f(x: Any) -> Any:
        total[...] += x
        return total[...]

    assert [int(f(i)) for i in (1, 2, 3)] == [1, 3, 6]
    assert int(total[...]) == 6


def test_functions_of_equal_text_use_their_own_references() -> None:
    def make(ref: Any) -> Any:
        return kiln.jit(lambda: ref[...] + 1)

    a, b = kiln.new_ref(1), kiln.new_ref(5)
    assert [int(make(r)()) for r in (a, b, a)] == [2, 6, 2]


def test_static_references() -> None:
    f = kiln.jit(lambda ref: ref[...], static_argnums=0)
    assert [int(f(kiln.new_ref(i))) for i in (1, 2)] == [1, 2]


def test_references_made_inside_cost_nothing_later() -> None:
    @kiln.jit
    def f(x: Any) -> Any:
        ref = kiln.new_ref(x)
        ref[0] = 7.0
        return ref[...]

    for _ in range(3):
        assert f(jnp.zeros(2)).tolist() == [7, 0]
    assert f.cache_info().misses == 1


def test_references_given_twice_are_refused_on_every_call() -> None:
    a, b = kiln.new_ref(1.0), kiln.new_ref(2.0)
    f = kiln.jit(lambda x, y: x[...] + y[...])
    assert float(f(a, b)) == 3
    with pytest.raises(ValueError, match="at both x and y"):
        f(a, a)
    with pytest.raises(ValueError, match="both closed over and passed"):
        kiln.jit(lambda x: x[...] + a[...])(a)


def test_programs_are_compiled_ahead_of_time() -> None:
    ref, other = kiln.new_ref(jnp.zeros(3)), kiln.new_ref(jnp.ones(3))
    kept = other[...]
    traced = count.trace(ref, jnp.float32(1.0))
    assert "Ref{f32[3]}" in str(traced.jaxpr)
    compiled = traced.lower().compile()
    outs = [compiled(r, jnp.float32(x)).tolist() for r, x in ((ref, 1), (other, 5), (ref, 2))]
    assert outs == [[2, 2, 2], [12, 12, 12], [6, 6, 6]]
    assert (ref[...].tolist(), other[...].tolist()) == ([3, 3, 3], [6, 6, 6])
    assert kept.tolist() == [1, 1, 1]
    assert count(ref, jnp.float32(1.0)).tolist() == [8, 8, 8]
    with pytest.raises(TypeError, match="compiled with"):
        compiled(jnp.zeros(3), jnp.float32(1))
    with pytest.raises(TypeError, match="compiled with"):
        compiled(kiln.new_ref(jnp.zeros(4)), jnp.float32(1))


def test_compiled_programs_close_over_references_and_only_read_some() -> None:
    hidden, read = kiln.new_ref(jnp.float32(0)), kiln.new_ref(jnp.float32(10))

    @kiln.jit
    def f(x: Any, ref: Any, y: Any) -> tuple[Any, Any]:
        hidden[...] += x
        ref[...] *= y
        return hidden[...] + read[...], ref[...]

    ref = kiln.new_ref(jnp.float32(3))
    lowered = f.lower(jnp.float32(1), ref, jnp.float32(2))
    compiled = lowered.compile()
    found = [[float(out) for out in compiled(1.0, ref, jnp.float32(2))] for _ in range(2)]
    assert found == [[11, 6], [12, 12]]
    read[...] = 20.0
    assert float(compiled(1.0, ref, jnp.float32(2))[0]) == 23
    assert len(compiled.output_shardings) == 2
    with pytest.raises(ValueError, match="closed over and passed"):
        compiled(1.0, hidden, jnp.float32(2))


def test_the_type_of_a_reference_is_enough_to_compile() -> None:
    kind = kiln.ShapeDtypeStruct((3,), jnp.float32, is_ref=True)
    assert kind.update(shape=(3,)) == kind
    assert kind != kiln.ShapeDtypeStruct((3,), jnp.float32)
    assert repr(kind) == "ShapeDtypeStruct(shape=(3,), dtype=float32, is_ref=True)"
    compiled = count.lower(kind, kiln.ShapeDtypeStruct((), jnp.float32)).compile()
    ref = kiln.new_ref(jnp.ones(3))
    assert compiled(ref, jnp.float32(2)).tolist() == [6, 6, 6]
    assert ref[...].tolist() == [3, 3, 3]


def test_other_options() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    with kiln.debug_nans(True):
        count(ref, 1.0)
    with kiln.default_device(kiln.devices()[0]):
        count(ref, 1.0)
    kiln.jit(lambda r: r.addupdate(1.0, 0), donate_argnums=0)(ref)
    kiln.jit(lambda r: r.addupdate(1.0, 1), inline=True)(ref)
    assert ref[...].tolist() == [3, 3, 2]


def test_a_program_is_made_once() -> None:
    jaxpr = count.trace(kiln.new_ref(jnp.zeros(3)), 1.0).jaxpr.jaxpr
    made = on_contents(jaxpr, "count")
    assert on_contents(jaxpr, "count") is made
    assert memoized(jaxpr, OnContents, lambda: None) is made
    assert (made.changed, made.own) == ([True, False], [True])
