"""Lifted transformations: what they refuse, keep and share, beyond what flax's answers show."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.linen as nn
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.linen.errors import (
    InvalidRngError,
    JaxTransformError,
    ScopeCollectionNotFound,
    TransformedMethodReturnValueError,
    TransformTargetError,
)
from kiln.linen.transforms.axes import In, Out

X = np.arange(12, dtype=np.float32).reshape(3, 4)
KEY = kiln.random.key(0)


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Any:
    with override(engine="reference"):
        yield


class Outer(nn.Module):
    """Runs a function as its compact method."""

    body: Any

    @nn.compact
    def __call__(self, *args: Any) -> Any:
        return self.body(self, *args)


class Counter(nn.Module):
    """Counts its calls and adds the count to a carry."""

    @nn.compact
    def __call__(self, carry: Any, x: Any = None) -> Any:
        count = self.variable("counts", "n", lambda: np.zeros((), np.float32))
        count.value = count.value + 1
        return carry + count.value, x


class Draw(nn.Module):
    @nn.compact
    def __call__(self, *_: Any) -> Any:
        return kiln.random.uniform(self.make_rng("params"))


TRANSFORMS: dict[str, Any] = {
    "vmap": lambda t, **o: nn.vmap(t, variable_axes={"params": 0}, split_rngs={}, **o),
    "scan": nn.scan,
    "remat": nn.remat,
    "jit": nn.jit,
    "map_variables": nn.map_variables,
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_names_and_targets(transform: Any) -> None:
    def fun(module: Any, x: Any) -> Any:
        """Say what it does."""

    assert (transform(fun).__name__, transform(fun).__doc__) == ("fun", "Say what it does.")
    kind = transform(nn.Dense)
    assert issubclass(kind, nn.Dense)
    assert kind.__name__.endswith("Dense")
    with pytest.raises(TransformTargetError):
        transform(nn.Dense(2))
    with pytest.raises(AttributeError):
        transform(nn.Dense, methods=["nothing"])
    with pytest.raises(ValueError, match="None, tuple, list, or dict"):
        transform(nn.Dense, methods="__call__")


def test_a_module_must_not_be_returned() -> None:
    with pytest.raises(TransformedMethodReturnValueError):
        Outer(lambda s, x: nn.remat(lambda m, x: m)(nn.Dense(2), x)).init(KEY, X)


def test_values_from_inside_are_not_written_outside() -> None:
    def body(s: Any, x: Any) -> Any:
        mapped = nn.vmap(lambda m, x: s.put_variable("out", "x", x), {}, {})
        return mapped(s, x)

    with pytest.raises(JaxTransformError):
        Outer(body).apply({}, X, mutable="out")


# ---- vmap


def test_the_size_of_a_mapped_axis() -> None:
    def run(*args: Any, **options: Any) -> Any:
        mapped = nn.vmap(lambda m, *xs: sum(x.sum() for x in xs), {}, {}, **options)
        return Outer(lambda s, *xs: mapped(s, *xs)).apply({}, *args)

    assert run(X).shape == (3,)
    assert run(X, in_axes=(None,), axis_size=2).shape == (2,)
    with pytest.raises(ValueError, match="axis_size should be specified manually"):
        run(X, in_axes=(None,))
    with pytest.raises(ValueError, match="Inconsistent sizes"):
        run(X, X.T)


def test_streams_that_are_not_split_or_shared_are_not_there() -> None:
    mapped = nn.vmap(Draw, variable_axes={}, split_rngs={"dropout": True}, axis_size=2)
    with pytest.raises(InvalidRngError):
        mapped().apply({}, rngs={"params": KEY})


def test_variables_that_only_go_in_or_out() -> None:
    def body(s: Any, axes: Any) -> Any:
        return nn.vmap(Counter, variable_axes={"counts": axes}, split_rngs={})(name="c")(X)[0]

    given = {"counts": {"c": {"n": np.float32([1, 2, 3])}}}
    both, after = Outer(body).apply(given, 0, mutable="counts")
    np.testing.assert_allclose(both, X + np.float32([[2], [3], [4]]))
    assert after["counts"]["c"]["n"].tolist() == [2, 3, 4]
    with pytest.raises(ScopeCollectionNotFound):
        Outer(lambda s: body(s, Out(0))).apply(given)
    out, after = Outer(lambda s: body(s, Out(0))).apply({}, mutable="counts")
    np.testing.assert_allclose(out, X + 1)
    assert after["counts"]["c"]["n"].tolist() == [1, 1, 1]


def test_variables_that_only_go_in() -> None:
    class Reader(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return x + self.variable("counts", "n").value

    mapped = nn.vmap(Reader, variable_axes={"counts": In(0)}, split_rngs={})
    given = {"counts": {"n": np.float32([1, 2, 3])}}
    out, after = mapped().apply(given, X, mutable="counts")
    np.testing.assert_allclose(out, X + np.float32([[1], [2], [3]]))
    assert after["counts"]["n"].tolist() == [1, 2, 3]


# ---- scan


def test_scan_wants_a_pair_and_a_length() -> None:
    with pytest.raises(TypeError, match="pair"):
        Outer(lambda s, x: nn.scan(lambda m, c, x: c)(s, 0.0, x)).apply({}, X)
    with pytest.raises(ValueError, match="length should be specified manually"):
        Outer(lambda s: nn.scan(lambda m, c, x: (c, x))(s, 0.0, None)).apply({})


def test_shared_variables_must_not_depend_on_the_step() -> None:
    class Bad(nn.Module):
        @nn.compact
        def __call__(self, carry: Any, x: Any) -> Any:
            self.variable("shared", "v", lambda: x.sum())
            return carry, x

    with pytest.raises(ValueError, match="data dependency on the scan body"):
        nn.scan(Bad, variable_broadcast="shared")().init(KEY, 0.0, X)


def test_carried_variables_that_may_not_be_written_stay() -> None:
    class Reader(nn.Module):
        @nn.compact
        def __call__(self, carry: Any, x: Any) -> Any:
            return carry + self.variable("counts", "n").value, x

    scanned = nn.scan(Reader, variable_carry="counts", length=3)()
    carry, _ = scanned.apply({"counts": {"n": 2.0}}, 0.0, None)
    assert carry == 6


def test_data_transform_sees_variables_and_keys() -> None:
    seen = []

    def transform(groups: Any, rngs: Any) -> Any:
        seen.append((sorted(groups[2]), sorted(rngs[0])))
        return groups, rngs

    scanned = nn.scan(
        lambda m, c, x: (nn.Dense(4)(c), x),
        variable_axes={"params": 0},
        split_rngs={"params": True},
        data_transform=transform,
    )
    variables = Outer(lambda s, x: scanned(s, x, X)).init(KEY, X)
    assert variables["params"]["Dense_0"]["kernel"].shape == (3, 4, 4)
    assert seen == [([], ["params"])] * 2


# ---- the others


def test_map_variables_where_only_others_may_be_written() -> None:
    double = {"trans_in_fn": lambda t: kiln.tree.map(lambda x: x * 2, t), "init": True}
    module = nn.map_variables(nn.BatchNorm, "params", **double)(use_running_average=False)
    variables = module.init(KEY, X)
    out, updates = module.apply(variables, X, mutable="batch_stats")
    assert set(updates) == {"batch_stats"}
    plain = nn.BatchNorm(use_running_average=False).apply(variables, X, mutable="batch_stats")[0]
    np.testing.assert_allclose(out, 2 * plain, rtol=1e-5)


def test_gradients_need_a_scalar() -> None:
    with pytest.raises(TypeError, match="scalar-output functions"):
        Outer(lambda s, x: nn.grad(lambda m, x: m(x), nn.Dense(2), x)).init(KEY, X)


def test_a_loop_over_carried_variables() -> None:
    def body(s: Any, x: Any) -> Any:
        counter = Counter(name="c")
        if s.is_initializing():
            return counter(x)[0]
        return nn.while_loop(
            lambda m, c: m.get_variable("counts", "n") < 4,
            lambda m, c: m(c)[0],
            counter,
            x,
            carry_variables="counts",
        )

    variables = Outer(body).init(KEY, np.float32(0))
    out, after = Outer(body).apply(variables, np.float32(0), mutable="counts")
    assert (float(out), float(after["counts"]["c"]["n"])) == (9, 4)


def test_several_scopes_at_once() -> None:
    def body(s: Any, x: Any) -> Any:
        a, b = nn.Dense(4, name="a"), nn.Dense(4, name="b")

        def both(m: Any, other: Any, x: Any) -> Any:
            return other(m(x))

        y, back = nn.vjp(both, a, b, x, multi_scope=True)
        return y, back(y)[0]

    variables = Outer(body).init(KEY, X)
    (y, slopes) = Outer(body).apply(variables, X)

    def loss(params: Any) -> Any:
        return (Outer(lambda s, x: body(s, x)[0]).apply({"params": params}, X) ** 2).sum() / 2

    expected = kiln.grad(loss)(variables["params"])
    for slope, name in zip(slopes, ("a", "b"), strict=True):
        np.testing.assert_allclose(
            slope["params"]["kernel"], expected[name]["kernel"], rtol=1e-4, atol=1e-4
        )


class Weighted(nn.Module):
    """Makes its parameter in setup."""

    def setup(self) -> None:
        self.w = self.param("w", nn.initializers.normal(), (4,))
        self.calls = self.variable("state", "calls", lambda: kiln.numpy.zeros(()))

    def __call__(self, x: Any) -> Any:
        self.calls.value += 1.0
        return x @ self.w

    def doubled(self, x: Any) -> Any:
        return 2 * (x @ self.w)

    def step(self, carry: Any, x: Any) -> Any:
        return carry + x @ self.w, x @ self.w


AXES: dict[str, Any] = {
    "variable_axes": {"params": 0, "state": 0},
    "split_rngs": {"params": True},
}


def test_what_setup_makes_is_made_for_each_step() -> None:
    module = nn.vmap(Weighted, **AXES, methods=["__call__", "doubled"])()
    variables = module.init(KEY, X)
    assert variables["params"]["w"].shape == (3, 4)
    rows = np.einsum("ij,ij->i", X, np.asarray(variables["params"]["w"]))
    np.testing.assert_allclose(module.apply(variables, X, method="doubled"), 2 * rows, 1e-5)
    found, changed = module.apply(variables, X, mutable=["state"])
    np.testing.assert_allclose(found, rows, 1e-5)
    assert changed["state"]["calls"].tolist() == [2, 2, 2]
    inner = nn.vmap(Weighted, **AXES, axis_size=3)
    outer = Outer(lambda m, x: inner(name="inner")(x))
    assert outer.init(KEY, X)["params"]["inner"]["w"].shape == (3, 4)


def test_what_setup_makes_is_made_for_each_step_of_a_loop() -> None:
    module = nn.scan(Weighted, **AXES, methods=["step"])()
    variables = module.init(KEY, 0.0, X, method="step")
    rows = np.einsum("ij,ij->i", X, np.asarray(variables["params"]["w"]))
    carry, ys = module.apply(variables, 0.0, X, method="step")
    np.testing.assert_allclose(ys, rows, 1e-5)
    np.testing.assert_allclose(carry, rows.sum(), 1e-5)


class Counting(nn.Module):
    """Writes a variable that stands outside of it."""

    held: Any = None

    @nn.compact
    def __call__(self, x: Any, given: Any = None) -> Any:
        counter = self.held or given
        counter.value += 1
        return nn.Dense(2)(x) * counter.value


@pytest.mark.parametrize("lifted", [nn.jit, nn.remat])
@pytest.mark.parametrize("as_field", [True, False])
def test_a_variable_may_be_handed_to_a_submodule(lifted: Any, as_field: bool) -> None:
    def run(make: Any) -> Any:
        def body(m: Any, x: Any) -> Any:
            counter = m.variable("state", "count", lambda: 0)
            inner = make(Counting)(*([counter] if as_field else []), name="inner")
            args = () if as_field else (counter,)
            return inner(x, *args) + inner(x, *args)

        model = Outer(body)
        y, variables = model.init_with_output(KEY, X)
        return y, variables, model.apply(variables, X, mutable=["state"])

    (y, variables, after), (plain_y, plain_variables, plain_after) = run(lifted), run(lambda c: c)
    np.testing.assert_allclose(y, plain_y, 1e-6)
    np.testing.assert_allclose(after[0], plain_after[0], 1e-6)
    assert int(variables["state"]["count"]) == int(plain_variables["state"]["count"]) == 2
    assert int(after[1]["state"]["count"]) == 4


@pytest.mark.parametrize("lifted", [nn.jit, nn.remat])
def test_a_variable_is_no_result(lifted: Any) -> None:
    def body(m: Any, x: Any) -> Any:
        return lifted(lambda m: m.variable("state", "count", lambda: 0))(m)

    with pytest.raises(nn.errors.TransformedMethodReturnValueError):
        Outer(body).init(KEY, X)


def test_variables_outside_may_be_used_by_name_in_branches() -> None:
    def body(m: Any, x: Any) -> Any:
        for name in "ab":
            m.variable("state", name, lambda: 0)

        def branch(name: str) -> Any:
            def count(m: Any, x: Any) -> Any:
                m.variable("state", name).value += 1
                return x

            return count

        return nn.switch(1, [branch("a"), branch("b")], m, x)

    assert Outer(body).init(KEY, X)["state"] == {"a": 0, "b": 1}


def test_a_class_with_some_arguments_is_lifted() -> None:
    dense = functools.partial(nn.Dense, use_bias=False)
    lifted = nn.vmap(dense, variable_axes={"params": 0}, split_rngs={"params": True})
    variables = lifted(4).init(KEY, jnp.ones((3, 2, 5)))
    assert kiln.tree.map(jnp.shape, variables) == {"params": {"kernel": (3, 5, 4)}}
