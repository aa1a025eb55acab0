"""Section 5.5: named axes. One trace for all sizes; one name, one size. And 8.3: how they print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.errors import InconclusiveSizeError
from kiln.base.options.config import override
from kiln.execution.compilation import on_compile
from tests.contract.marks import contract


def rows(n: int, columns: int = 3) -> np.ndarray:
    return np.arange(n * columns, dtype=np.float32).reshape(n, columns)


def counted(fun: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Return a jitted function and the list of shapes of `x` it was traced with."""
    seen: list[Any] = []

    def f(x: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(kiln.tree.map(lambda a: a.shape, x))
        return fun(x, *args, **kwargs)

    return kiln.jit(f, **options), seen


@contract("5.5")
@pytest.mark.parametrize(
    "axes",
    [
        ({0: "n"},),
        [{0: "n"}],
        {0: "n"},
        ("n",),
        (("n", None),),
        ("n", None),
        ({-2: "n"},),
        ({0: "n", 1: None},),
    ],
)
def test_spellings(axes: Any) -> None:
    f, seen = counted(lambda x: x / x.shape[0], abstracted_axes=axes)
    for n in (4, 2, 7):
        np.testing.assert_allclose(f(rows(n)), rows(n) / n, rtol=1e-6)
    (shape,) = seen
    assert str(shape[0]) == "n"
    assert shape[1] == 3


@contract("5.5")
@pytest.mark.parametrize("axes", ["n", 3, ({0: 1},), ({"a": "n"},), {"x": {0: "n"}}, (["n"],)])
def test_what_is_no_specification(axes: Any) -> None:
    with pytest.raises(TypeError, match="abstracted_axes"):
        kiln.jit(lambda x: x, abstracted_axes=axes)


@contract("5.5")
def test_one_entry_for_each_argument() -> None:
    f, seen = counted(lambda x, w, b: x @ w + b, abstracted_axes=({0: "n"}, None, {}))
    for n in (3, 5):
        found = f(rows(n), rows(3, 2), np.ones(2, "f4"))
        np.testing.assert_allclose(found, rows(n) @ rows(3, 2) + 1)
    assert len(seen) == 1
    f(rows(3), rows(3, 4), np.ones(4, "f4"))
    assert len(seen) == 2


@contract("5.5")
def test_trees_of_arguments() -> None:
    f, seen = counted(
        lambda x: {"y": x["a"].sum(0) + x["b"][0], "z": x["b"][1].sum()},
        abstracted_axes=({"a": {0: "n"}, "b": (None, {0: "m"})},),
    )
    for n, m in ((2, 3), (4, 1)):
        found = f({"a": rows(n), "b": (np.ones(3, "f4"), np.ones(m, "f4"))})
        np.testing.assert_allclose(found["y"], rows(n).sum(0) + 1)
        assert found["z"] == m
    assert len(seen) == 1
    with pytest.raises(ValueError, match="tree prefix"):
        f({"a": rows(2)})


@contract("5.5")
def test_keywords_and_static_arguments() -> None:
    f, seen = counted(
        lambda x, k, y: k * x.sum() + y.sum(),
        abstracted_axes=({0: "n"}, None, {0: "n"}),
        static_argnums=1,
    )
    for n in (2, 3):
        assert f(rows(n), 2, rows(n)) == 3 * rows(n).sum()
        assert f(rows(n), 3, rows(n)) == 4 * rows(n).sum()
    assert len(seen) == 2

    traces = []

    @kiln.jit(abstracted_axes=({0: "n"}, {0: "n"}))
    def g(x: Any, y: Any) -> Any:
        traces.append(x.shape)
        return x + y

    for n in (2, 3):
        np.testing.assert_array_equal(g(rows(n), y=rows(n)), 2 * rows(n))
    assert len(traces) == 1
    with pytest.raises(ValueError, match="'n'"):
        g(rows(2), y=rows(3))


@contract("5.5")
def test_one_name_has_one_size() -> None:
    f = kiln.jit(lambda x, y: x @ y.T, abstracted_axes=({0: "batch"}, {0: "batch"}))
    assert f(rows(2), rows(2)).shape == (2, 2)
    with pytest.raises(ValueError, match="batch") as error:
        f(rows(2), rows(4))
    first, second, third = str(error.value).splitlines()
    for text in ("x of type float32[2,3]", "y of type float32[4,3]", "test_dynamic_sizes.py"):
        assert text in first
    for text in ("axis 0 of x", "axis 0 of y", "'batch'", "2 and 4"):
        assert text in second
    assert "'batch'" in third


@contract("5.5")
def test_an_axis_that_is_not_there() -> None:
    f = kiln.jit(lambda x: x, abstracted_axes=({2: "n"},))
    with pytest.raises(ValueError, match=r"argument x .*\n.*axis 2 the name 'n'.*2 axes"):
        f(rows(2))


@contract("5.5")
def test_what_depends_on_the_value_of_a_size_names_the_axis() -> None:
    def reading(x: Any) -> Any:
        return x * 2 if x.shape[0] > 4 else x

    with pytest.raises(InconclusiveSizeError, match="named axis rows") as error:
        kiln.jit(reading, abstracted_axes=({0: "rows"},))(rows(2))
    assert len(str(error.value).splitlines()) == 3
    for fun in (
        lambda x: list(range(x.shape[0])),
        lambda x: x.reshape(2, -1),
        lambda x: kiln.lax.top_k(x.T, 3),
    ):
        with pytest.raises(InconclusiveSizeError, match="named axis rows"):
            kiln.jit(fun, abstracted_axes=({0: "rows"},))(rows(4))


@contract("5.5")
@pytest.mark.parametrize(("engine", "count"), [("native", 1), ("xla", 3)])
def test_compiled_once_for_all_sizes_or_for_each(engine: str, count: int) -> None:
    f, seen = counted(lambda x: jnp.tanh(x).mean(0), abstracted_axes=({0: "n"},))
    compiled: list[str] = []
    stop = on_compile(lambda name, seconds: compiled.append(name))
    try:
        with override(engine=engine):
            for n in (11, 12, 11, 12, 13):
                f(rows(n))
    finally:
        stop()
    assert (len(compiled), len(seen), f._cache_size()) == (count, 1, 1)
    f.clear_cache()
    f(rows(11))
    assert len(seen) == 2


@contract("5.5")
def test_size_1_is_a_size_like_any_other() -> None:
    f, seen = counted(lambda x, y: x + y, abstracted_axes=({0: "n"}, {0: "m"}))
    # Two names are two sizes: nothing stretches because one of them happens to be 1.
    with pytest.raises((TypeError, ValueError), match=r"\bm\b.*\bn\b|\bn\b.*\bm\b"):
        f(rows(1), rows(4))
    g, seen = counted(lambda x, y: x + y, abstracted_axes=({0: "n"}, None))
    for n in (4, 1, 2):
        np.testing.assert_array_equal(g(rows(n), rows(1)), rows(n) + rows(1))
    assert len(seen) == 1
    with pytest.raises((TypeError, ValueError), match=r"\bn\b"):
        g(rows(1), rows(4))


@contract("5.5")
def test_size_0() -> None:
    f, seen = counted(lambda x: x.sum(0) + x.shape[0], abstracted_axes=({0: "n"},))
    np.testing.assert_array_equal(f(rows(0)), np.zeros(3))
    np.testing.assert_array_equal(f(rows(2)), rows(2).sum(0) + 2)
    assert len(seen) == 1
    # What takes for granted that there is a row gets its answer, or error, for 0 apart.
    g, seen = counted(lambda x: x.max(), abstracted_axes=({0: "n"},))
    assert g(rows(2)) == 5
    with pytest.raises(ValueError, match="zero-size"):
        g(rows(0))
    h, seen = counted(lambda x: x[:1], abstracted_axes=({0: "n"},))
    assert h(rows(2)).shape == (1, 3)
    assert h(rows(0)).shape == (0, 3)
    k, seen = counted(
        lambda x: jnp.zeros(()) if x.shape[0] == 0 else x.mean(), abstracted_axes=({0: "n"},)
    )
    assert k(rows(2)) == 2.5
    assert k(rows(0)) == 0
    # The assumption is remembered through a function traced before.
    outer = kiln.jit(lambda x: k(x) + 1, abstracted_axes=({0: "n"},))
    assert outer(rows(2)) == 3.5
    assert outer(rows(0)) == 1


@contract("5.5")
def test_under_transformations() -> None:
    f, seen = counted(lambda x: jnp.sum(jnp.sin(x) ** 2) / x.shape[0], abstracted_axes=({0: "n"},))
    for n in (2, 3):
        x = rows(n)
        np.testing.assert_allclose(kiln.grad(f)(x), np.sin(2 * x) / n, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(
            kiln.jvp(f, (x,), (x,))[1], np.sum(np.sin(2 * x) * x) / n, rtol=1e-4, atol=1e-5
        )
        stack = np.stack([x, 2 * x])
        np.testing.assert_allclose(
            kiln.vmap(f)(stack), (np.sin(stack) ** 2).sum((1, 2)) / n, rtol=1e-4
        )
        np.testing.assert_allclose(
            kiln.jit(kiln.grad(f))(x), np.sin(2 * x) / n, rtol=1e-4, atol=1e-6
        )
        assert f.eval_shape(x).shape == ()
    assert len(seen) == 1
    g, seen = counted(
        kiln.value_and_grad(lambda x: jnp.mean(kiln.vmap(jnp.dot)(x, x))),
        abstracted_axes=({0: "n"},),
    )
    for n in (2, 5):
        value, gradient = g(rows(n))
        np.testing.assert_allclose(value, np.mean((rows(n) ** 2).sum(1)), rtol=1e-5)
        np.testing.assert_allclose(gradient, 2 * rows(n) / n, rtol=1e-5)
    assert len(seen) == 1


@contract("5.5")
def test_nested_in_a_program_with_the_same_names() -> None:
    inner, seen = counted(lambda x, y: x.sum(0) * y.shape[0], abstracted_axes=({0: "n"}, {0: "m"}))

    @kiln.jit(abstracted_axes=({0: "m"}, {0: "n"}))
    def outer(x: Any, y: Any) -> Any:
        # Names of the inner function have nothing to do with names of the outer one.
        return inner(x, y) + y.shape[0], inner(jnp.concatenate([x, x]), y)

    for m, n in ((2, 3), (4, 1)):
        first, second = outer(rows(m), rows(n))
        np.testing.assert_allclose(first, rows(m).sum(0) * n + n)
        np.testing.assert_allclose(second, 2 * rows(m).sum(0) * n)
    assert len(seen) == 1


@contract("5.5")
def test_sizes_as_arguments_and_results() -> None:
    times = kiln.jit(lambda x, k: x * k)
    power = kiln.jit(lambda x, k: x**k, static_argnums=1)

    @kiln.jit(abstracted_axes=({0: "n"},))
    def f(x: Any) -> Any:
        n = x.shape[0]
        large = kiln.lax.cond(n > jnp.int32(2), lambda k: k, lambda k: -k, n)
        seven = jnp.where(n == jnp.int32(3), 7, 0) + jnp.where(jnp.int32(3) != n, 7, 0)
        return times(x, n), power(x, n % 1 + 2), n, jnp.array([n, 2]), large, seven

    for n in (2, 3):
        product, square, size, both, large, seven = f(rows(n))
        np.testing.assert_allclose(product, rows(n) * n)
        np.testing.assert_allclose(square, rows(n) ** 2)
        assert (size, both.tolist(), large) == (n, [n, 2], n if n > 2 else -n)
        assert seven == 7


@contract("5.5")
def test_closing_over_a_value_with_names() -> None:
    @kiln.jit(abstracted_axes=({0: "n"},))
    def outer(x: Any) -> Any:
        inner = kiln.jit(lambda y: y.sum() + x.sum(0) * y.shape[0], abstracted_axes=({0: "n"},))
        return inner(jnp.concatenate([x[:, 0], x[:, 1]]))

    for n in (2, 3):
        x = rows(n)
        np.testing.assert_allclose(outer(x), x[:, :2].sum() + x.sum(0) * 2 * n, rtol=1e-6)


@contract("5.5")
def test_stages_and_types_in_place_of_arrays() -> None:
    f, seen = counted(lambda x: x.T @ x / x.shape[0], abstracted_axes=({0: "n"},))
    struct = kiln.ShapeDtypeStruct((6, 3), "float32")
    assert kiln.eval_shape(f, struct).shape == (3, 3)
    assert "tensor<6x3xf32>" in f.lower(struct).as_text()
    compiled = f.lower(struct).compile()
    np.testing.assert_allclose(compiled(rows(6)), rows(6).T @ rows(6) / 6, rtol=1e-6)
    np.testing.assert_allclose(compiled(rows(5)), rows(5).T @ rows(5) / 5, rtol=1e-6)
    f(rows(5))
    assert len(seen) == 1
    with pytest.raises(TypeError, match="compiled with"):
        compiled(rows(5).astype(np.int32))
    with override(engine="xla"):
        compiled = f.lower(struct).compile()
    with pytest.raises(TypeError, match="compiled with"):
        compiled(rows(5))


@contract("5.5", "8.3")
def test_named_sizes_in_the_jaxpr() -> None:
    f = kiln.jit(lambda x: jnp.concatenate([x, x]).reshape(-1), abstracted_axes=({0: "n"},))
    text = str(f.trace(rows(4)).jaxpr)
    assert "a:f32[n,3]" in text
    assert "f32[2*n,3]" in text
    assert "f32[6*n]" in text
    assert "f32[4,3]" in str(kiln.make_jaxpr(f)(rows(4)))
    shown = kiln.make_jaxpr(lambda x: x / x.shape[0], abstracted_axes={0: "rows"})(rows(4))
    assert "a:f32[rows,3]" in str(shown)
    assert "size_value" in str(shown)


@contract("5.5")
def test_sizes_are_no_part_of_the_key_but_other_types_are() -> None:
    f, seen = counted(lambda x: x * 2, abstracted_axes=({0: "n"},))
    f(rows(2))
    f(rows(3))
    f(rows(3).astype("i4"))
    f(rows(3, 4))
    f(rows(4, 4))
    f(np.ones((2, 3, 4), "f4"))
    assert len(seen) == 4


COMPARISONS: list[Any] = [
    lambda x: x.shape[0] == 1,
    lambda x: x.shape[0] != 4,
    lambda x: 2 * x.shape[0] == 8,
    lambda x: x.shape[0] % 3 == 0,
    lambda x: x.shape[0] // 2 == 2,
    lambda x: x.shape[0] in (1, 5),
    lambda x: x.shape == (4,),
    lambda x: (x.shape[0], "a") == (2, "a"),
    lambda x: [1, 2, 3].count(x.shape[0]) == 1,
    lambda x: x.size == 3.0,
    lambda x: x.shape[0] == np.int64(2),
    lambda x: divmod(x.shape[0], 4)[1] == 1,
]


@contract("5.5")
@pytest.mark.parametrize("number", range(len(COMPARISONS)))
def test_a_branch_is_taken_for_the_sizes_it_is_for(number: int) -> None:
    compare = COMPARISONS[number]
    f = kiln.jit(lambda x: x * 2 if compare(x) else x * 3, abstracted_axes=("n",))
    for n in (3, 1, 2, 4, 5, 6, 4, 1, 0, 3):
        x = np.ones(n, np.float32)
        np.testing.assert_array_equal(f(x), x * (2 if compare(x) else 3))


@contract("5.5")
def test_sizes_that_are_compared_with_each_other() -> None:
    f = kiln.jit(
        lambda x, y: x.sum() if x.shape == y.shape else y.sum(), abstracted_axes=(("n",), ("m",))
    )
    for n, m in ((2, 3), (3, 3), (3, 2), (2, 2), (0, 2), (0, 0), (4, 4)):
        x, y = np.full(n, 2.0, np.float32), np.ones(m, np.float32)
        assert f(x, y) == (x.sum() if n == m else y.sum())


@contract("5.5")
def test_a_comparison_costs_one_program_more() -> None:
    f = kiln.jit(lambda x: x * 2 if x.shape[0] == 1 else x * 3, abstracted_axes=("n",))
    for n in (2, 1, 3, 4, 1, 5, 6):
        f(np.ones(n, np.float32))
    assert f.cache_info().traces == 2


@contract("5.5")
def test_sizes_that_cannot_be_looked_up() -> None:
    for look in (lambda n: {1: 2}.get(n), lambda n: n in {1, 2}, lambda n: hash(n)):
        with pytest.raises(InconclusiveSizeError, match="dict or set") as error:
            kiln.jit(lambda x, look=look: x * (look(x.shape[0]) or 1), abstracted_axes=("n",))(
                np.ones(3)
            )
        assert len(str(error.value).splitlines()) == 3


@contract("5.5")
def test_what_is_compiled_ahead_refuses_sizes_of_another_branch() -> None:
    f = kiln.jit(lambda x: x * 2 if x.shape[0] == 1 else x * 3, abstracted_axes=("n",))
    compiled = f.lower(np.ones(3, np.float32)).compile()
    assert compiled(np.ones(4, np.float32)).tolist() == [3.0] * 4
    with pytest.raises(TypeError, match="takes another branch") as error:
        compiled(np.ones(1, np.float32))
    assert len(str(error.value).splitlines()) == 3


@contract("5.5")
def test_functions_whose_result_depends_on_a_size_of_1_or_0() -> None:
    squeeze = kiln.jit(lambda x: x.squeeze(), abstracted_axes=("n",))
    spread = kiln.jit(lambda x: jnp.std(x, ddof=1), abstracted_axes=("n",))
    for n in (3, 1, 2, 0):
        x = np.arange(n, dtype=np.float32)
        assert squeeze(x).shape == x.squeeze().shape
        np.testing.assert_array_equal(spread(x), np.asarray(jnp.std(x, ddof=1)))


@contract("5.5")
def test_an_axis_of_at_most_one_element() -> None:
    f = kiln.jit(lambda x: (x[:2] * 3 + x[:2])[1:], abstracted_axes=("n",))
    for n in (5, 2, 1, 0, 3):
        x = np.arange(1, n + 1, dtype=np.float32)
        np.testing.assert_array_equal(f(x), x[1:2] * 4)
