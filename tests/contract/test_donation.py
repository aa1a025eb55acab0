"""Section 4: donated arguments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.contract.marks import contract


def fresh(n: int = 1000) -> kiln.Array:
    return kiln.jit(lambda x: x * 2)(jnp.arange(float(n)))


@contract("4.1")
@pytest.mark.parametrize(
    "options",
    [
        {"donate_argnums": 0},
        {"donate_argnums": (0,)},
        {"donate_argnums": [0]},
        {"donate_argnums": -2},
        {"donate_argnames": "x"},
        {"donate_argnames": ["x"]},
        {"donate_argnums": 0, "donate_argnames": "x"},
    ],
)
def test_spellings(options) -> None:
    f = kiln.jit(lambda x, y: x + y, **options)
    x, y = fresh(), fresh()
    f(x, y)
    assert (x.is_deleted(), y.is_deleted()) == (True, False)


@contract("4.1")
def test_names_follow_from_numbers_and_back() -> None:
    x = fresh()
    kiln.jit(lambda x: x + 1, donate_argnums=0)(x=x)
    assert x.is_deleted()
    x = fresh()
    kiln.jit(lambda x: x + 1, donate_argnames="x")(x)
    assert x.is_deleted()


@contract("4.1")
@pytest.mark.parametrize("options", [{"donate_argnums": 3}, {"donate_argnames": "z"}])
def test_validation(options) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        kiln.jit(lambda x, y: x, **options)


@contract("3.8")
@pytest.mark.parametrize("donated", [{"donate_argnums": 1}, {"donate_argnames": "n"}])
def test_static_and_donated_must_not_overlap(donated) -> None:
    with pytest.raises(ValueError, match=r"static.*donate") as caught:
        kiln.jit(lambda x, n: x * n, static_argnames="n", **donated)
    assert "'n'" in str(caught.value)


@contract("4.2")
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: -x,
        lambda x: repr(x),
        lambda x: str(x),
        lambda x: np.asarray(x),
        lambda x: x[0],
        lambda x: float(x[0]),
        lambda x: x.block_until_ready(),
        lambda x: x.tolist(),
        lambda x: jnp.sin(x),
        lambda x: kiln.jit(lambda y: y)(x),
        lambda x: kiln.device_get(x),
    ],
)
@pytest.mark.parametrize("how", ["donated", "deleted"])
def test_any_use_of_a_deleted_array_raises(use, how) -> None:
    x = fresh()
    np.asarray(x)
    if how == "donated":
        kiln.jit(lambda x: x + 1, donate_argnums=0)(x)
    else:
        x.delete()
    assert x.is_deleted()
    assert (x.shape, x.dtype, x.ndim, x.size) == ((1000,), jnp.float32, 1, 1000)
    with pytest.raises((RuntimeError, ValueError), match=r"deleted|donated"):
        use(x)


@contract("4.2")
def test_a_cached_call_refuses_a_deleted_array() -> None:
    f = kiln.jit(lambda x: x + 1, donate_argnums=0)
    g = kiln.jit(lambda x: x + 1)
    x = fresh()
    g(x)
    f(x)
    for call in (f, g):
        with pytest.raises((RuntimeError, ValueError), match=r"deleted|donated"):
            call(x)


@contract("4.2")
def test_leaves_of_a_tree_are_donated() -> None:
    state = {"w": fresh(), "b": [fresh(7)]}
    out = kiln.jit(lambda s: kiln.tree.map(lambda x: x + 1, s), donate_argnums=0)(state)
    assert state["w"].is_deleted() and state["b"][0].is_deleted()
    assert not out["w"].is_deleted()


@contract("4.3")
@pytest.mark.parametrize("read_before", [False, True])
def test_the_result_lives_at_the_donated_address(read_before: bool) -> None:
    x = fresh()
    if read_before:
        np.asarray(x)
    address = x.unsafe_buffer_pointer()
    y = kiln.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert y.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(y, 2 * np.arange(1000.0) + 1)


@contract("4.3")
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x.astype(jnp.int32),
        lambda x: x.reshape(10, 100),
        lambda x: (x.sum(), x * 2),
    ],
)
def test_another_result_of_equal_size_can_take_the_memory(fun) -> None:
    x = fresh()
    want = kiln.tree.map(np.asarray, fun(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = kiln.jit(fun, donate_argnums=0)(x)
    assert x.is_deleted()
    kiln.tree.map(np.testing.assert_array_equal, got, want)


@contract("4.3")
def test_the_identity_deletes_its_input_and_returns_a_live_array() -> None:
    x = fresh()
    y = kiln.jit(lambda x: x, donate_argnums=0)(x)
    assert x.is_deleted() and not y.is_deleted()
    np.testing.assert_array_equal(y, 2 * np.arange(1000.0))


@contract("4.3")
def test_values_are_right_over_many_steps() -> None:
    step = kiln.jit(lambda x, g: x - 0.5 * g, donate_argnums=0)
    x, plain = jnp.ones((64,)) + 0, np.ones(64, np.float32)
    for i in range(20):
        g = jnp.full((64,), float(i))
        x, plain = step(x, g), plain - np.float32(0.5 * i)
    np.testing.assert_array_equal(x, plain)


@contract("4.2")
def test_a_view_taken_before_keeps_its_values() -> None:
    x = fresh()
    view = np.asarray(x)
    kiln.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(view, 2 * np.arange(1000.0))


@contract("4.4")
def test_an_unusable_donation_warns_and_leaves_the_array() -> None:
    x = jnp.ones(3)
    with pytest.warns(
        UserWarning, match=r"Some donated buffers were not usable: float32\[3\]"
    ) as w:
        kiln.jit(lambda x: x.sum(), donate_argnums=0)(x)
    assert "argument x" in str(w[0].message)
    assert w[0].filename == __file__
    assert not x.is_deleted()
    np.testing.assert_array_equal(x, np.ones(3))


@contract("4.4")
def test_a_usable_donation_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kiln.jit(lambda x: x + 1, donate_argnums=0)(fresh())


@contract("4.4")
def test_each_program_warns_once() -> None:
    unusable = kiln.jit(lambda x: x.sum(), donate_argnums=0)
    usable = kiln.jit(lambda x: x + 1, donate_argnums=0)

    def warned(fun, size: int) -> int:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            fun(jnp.ones(size))
        return len(found)

    # The first calls compile, the later ones are those the runtime knows.
    assert [warned(unusable, n) for n in (3, 3, 3, 3, 4, 4, 3)] == [1, 0, 0, 0, 1, 0, 0]
    assert [warned(usable, n) for n in (3, 3, 3, 3, 4, 4, 3)] == [0] * 7


@contract("4.4")
def test_one_output_takes_the_memory_of_one_input_only() -> None:
    x, y = fresh(), fresh()
    with pytest.warns(UserWarning, match=r"not usable: float32\[1000\]"):
        kiln.jit(lambda x, y: x + y, donate_argnums=(0, 1))(x, y)
    assert [x.is_deleted(), y.is_deleted()].count(True) == 1


@contract("4.5")
@pytest.mark.parametrize("value", [np.ones(3, np.float32), 2.0, np.float32(2)])
def test_what_is_no_array_is_not_donated(value) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = kiln.jit(lambda x: x + 1, donate_argnums=0)(value)
        kiln.jit(lambda x: x.sum(), donate_argnums=0)(np.ones(3))
    np.testing.assert_array_equal(out, np.asarray(value) + 1)


@contract("4.5")
def test_an_array_passed_twice_is_not_donated() -> None:
    x = fresh()
    f = kiln.jit(lambda a, b: a + b, donate_argnums=0)
    f(fresh(), fresh())
    with pytest.raises(RuntimeError, match="donate") as caught:
        f(x, x)
    assert type(caught.value) is kiln.errors.JaxRuntimeError
    assert "as a and as b" in str(caught.value)
    assert not x.is_deleted()


@contract("4.5")
@pytest.mark.parametrize("earlier", [0, 1, 3])
def test_a_closed_over_array_may_be_donated(earlier) -> None:
    y = fresh()
    values = np.array(y)
    other = jnp.zeros(7)
    f = kiln.jit(lambda x: (x + y, other), donate_argnums=0)
    for _ in range(earlier):
        f(fresh())
    np.testing.assert_array_equal(f(y)[0], 2 * values)
    assert y.is_deleted()
    for _ in range(3):
        np.testing.assert_array_equal(f(fresh())[0], 2 * values)
    z = kiln.device_put(np.array(values), kiln.devices()[-1])
    g = kiln.jit(lambda x: x + z, donate_argnums=0)
    np.testing.assert_array_equal(g(z), 2 * values)
    np.testing.assert_array_equal(g(kiln.device_put(values, kiln.devices()[-1])), 2 * values)


@contract("4.6")
def test_donation_inside_another_trace_is_ignored() -> None:
    inner = kiln.jit(lambda x: x + 1, donate_argnums=0)

    @kiln.jit
    def outer(x):
        return inner(x) + x

    x = fresh()
    np.testing.assert_array_equal(outer(x), 4 * np.arange(1000.0) + 1)
    assert not x.is_deleted()
    kiln.grad(lambda x: inner(x).sum())(x)
    kiln.vmap(inner)(x)
    assert not x.is_deleted()


@contract("4.6", "12.2")
def test_stages_donate_when_called() -> None:
    f = kiln.jit(lambda x: x + 1, donate_argnums=0)
    x = fresh()
    lowered = f.lower(x)
    compiled = lowered.compile()
    assert not x.is_deleted()
    assert "tf.aliasing_output" in lowered.as_text()
    compiled(x)
    assert x.is_deleted()


@contract("4.2")
def test_a_trace_is_shared_with_the_function_that_does_not_donate() -> None:
    traced = []

    def f(x):
        traced.append(1)
        return x + 1

    x = fresh()
    kiln.jit(f)(x)
    kiln.jit(f, donate_argnums=0)(x)
    assert x.is_deleted() and len(traced) == 1
    y = fresh()
    kiln.jit(f)(y)
    assert not y.is_deleted()
