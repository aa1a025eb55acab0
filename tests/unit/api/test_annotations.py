"""Annotations of jaxtyping: what they accept, under transformations, and the texts of errors."""

# jaxtyping keeps names of axes in strings, which are not annotations of their own.
# ruff: noqa: F722, F821, UP037

from __future__ import annotations

import sys

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.typing import checked

jaxtyping = pytest.importorskip("jaxtyping", reason="jaxtyping is not installed")

Float, Int, Shaped, Bool = jaxtyping.Float, jaxtyping.Int, jaxtyping.Shaped, jaxtyping.Bool
Array = kiln.Array


@checked
def product(
    x: Float[Array, "n m"], y: Float[Array, "m k"], scale: float = 1.0
) -> Float[Array, "n k"]:
    """Multiply."""
    return x @ y * scale


X, Y = jnp.ones((2, 3)), jnp.ones((3, 4))


def test_fitting_arguments_pass():
    assert product(X, y=Y).shape == (2, 4)
    assert kiln.jit(product)(X, Y, scale=2.0)[0, 0] == 6
    assert product.__name__ == "product" and product.__doc__ == "Multiply."


def test_transformations_check_what_the_function_sees():
    stacks = jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))
    assert kiln.vmap(product)(*stacks).shape == (5, 2, 4)
    assert kiln.jit(kiln.vmap(product))(*stacks).shape == (5, 2, 4)
    assert kiln.grad(lambda x: product(x, Y).sum())(X).shape == X.shape
    assert (
        kiln.jit(product).lower(X, kiln.ShapeDtypeStruct((3, 4), jnp.float32)).compile()(X, Y).shape
    )


@pytest.mark.parametrize("transform", [lambda f: f, kiln.jit, kiln.checkpoint, kiln.jacfwd])
def test_a_shape_that_does_not_fit(transform):
    with pytest.raises(TypeError) as caught:
        transform(product)(X, jnp.ones((4, 4)))
    asked, wrong, remedy = str(caught.value).splitlines()
    assert asked.startswith(f"call of product at {__file__}:") and asked.count(__file__) == 2
    assert wrong == (
        "argument y is float32[4,4], but it is annotated as Float[Array, 'm k'] where n=2, m=3"
    )
    assert remedy == "pass an array of shape (3, k), or change the annotation"


def test_they_are_checked_once_for_each_trace():
    seen = []

    @kiln.jit
    @checked
    def f(x: Float[Array, "n"]) -> Float[Array, "n"]:
        seen.append(x)
        return x + 1

    for _ in range(3):
        f(jnp.ones(3))
    assert len(seen) == 1


def test_names_are_bound_in_each_call_anew():
    for n in (2, 3):
        assert product(jnp.ones((n, 3)), Y).shape == (n, 4)


def test_a_dtype_that_does_not_fit():
    with pytest.raises(
        TypeError, match=r"argument x is int32\[2,3\].*\n.*another dtype: .astype\('float32'\)"
    ):
        product(X.astype(int), Y)


def test_a_value_that_is_not_an_array():
    with pytest.raises(TypeError, match=r"argument x is a list, .*\npass an array: kiln"):
        product([[1.0]], Y)
    with pytest.raises(TypeError, match=r"argument x is a ndarray of float32\[2, 3\]"):
        product(np.ones((2, 3), np.float32), Y)


def test_a_result_that_does_not_fit():
    @checked
    def transposed(x: Float[Array, "n m"]) -> Float[Array, "m n"]:
        return x

    assert transposed(jnp.ones((3, 3))).shape == (3, 3)
    with pytest.raises(
        TypeError, match=r"the result is float32\[2,3\].*\nreturn an array of shape \(3, 2\)"
    ):
        kiln.jit(transposed)(X)


@checked
def several(
    *arrays: Float[Array, "n"],
    mask: Bool[Array, "n"] | None = None,
    tree: dict[str, tuple[Int[Array, ""], Shaped[Array, "n"]]] | None = None,
    **named: list[Float[Array, "n"]],
) -> tuple[Float[Array, "n"], ...]:
    return arrays


V, W = jnp.ones(3), jnp.ones(4)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: several(V, W), r"argument arrays\[1\] is float32\[4\]"),
        (
            lambda: several(V, mask=V),
            r"argument mask is float32\[3\], but it is annotated as .*None",
        ),
        (lambda: several(V, extra=[V, W]), r"argument named\['extra'\]\[1\] is float32\[4\]"),
        (lambda: several(V, tree={"a": (1, V)}), "argument tree is a dict"),
    ],
)
def test_containers_are_checked_item_by_item(call, what):
    assert several(V, V, mask=V > 0, tree={"a": (jnp.array(1), V)}, extra=[V]) == (V, V)
    with pytest.raises(TypeError, match=what):
        call()


def test_other_annotations_are_not_looked_at():
    @checked
    def f(x: int, y: list[str] | None = None) -> str:
        return x

    assert f("a", y=3) == "a"
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        f(z=1)


def test_functions_of_jaxtyping_run_on_tracers():
    @jaxtyping.jaxtyped(typechecker=None)
    def f(x: Float[Array, "n"]) -> Float[Array, "n"]:
        assert isinstance(x, Float[Array, "n"]) and not isinstance(x, Float[Array, "n n"])
        return 2 * x

    assert kiln.jit(kiln.vmap(f))(X).shape == (2, 3)


def test_kiln_does_not_need_jaxtyping(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxtyping", None)
    assert checked(lambda x: x)(2) == 2
