"""Section 15: linen.jit, sentence by sentence."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.linen as nn
import kiln.numpy as jnp
from kiln.linen.errors import (
    InvalidRngError,
    ModifyScopeVariableError,
    ScopeCollectionNotFound,
    TransformTargetError,
)
from tests.contract.marks import contract

X = np.ones((2, 4), np.float32)
KEY = kiln.random.key(0)
KEYS = {"params": KEY, "dropout": kiln.random.key(1)}
TRACES: list[Any] = []


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    TRACES.clear()


class Block(nn.Module):
    """Parameters, statistics, dropout and sown values; `TRACES` sees it traced."""

    width: int = 4
    activation: Any = None

    @nn.compact
    def __call__(self, x: Any, scale: Any = 1.0) -> Any:
        TRACES.append(1)
        y = nn.Dense(self.width)(x) * scale
        y = nn.BatchNorm(use_running_average=False)(y)
        y = nn.Dropout(0.5, deterministic=not self.has_rng("dropout"))(y)
        self.sow("intermediates", "y", y)
        return y if self.activation is None else self.activation(y)


class Switched(nn.Module):
    """A method with a Python value that chooses what is computed."""

    @nn.compact
    def __call__(self, x: Any, train: Any, factor: Any = 2) -> Any:
        TRACES.append(1)
        return x * factor if train else x


def equal(a: Any, b: Any) -> None:
    assert kiln.tree.structure(a) == kiln.tree.structure(b)
    for x, y in zip(kiln.tree.leaves(a), kiln.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


# ---- 15.1


@contract("15.1")
def test_signature() -> None:
    found = {name: p.default for name, p in inspect.signature(nn.jit).parameters.items()}
    assert found == {
        "target": inspect.Parameter.empty,
        "variables": True,
        "rngs": True,
        "static_argnums": (),
        "static_argnames": (),
        "donate_argnums": (),
        "device": None,
        "backend": None,
        "methods": None,
    }


# ---- 15.2


@contract("15.2")
def test_of_a_class_it_is_a_subclass() -> None:
    jitted = nn.jit(Block)
    assert issubclass(jitted, Block)
    assert "Block" in jitted.__name__
    module = jitted(width=3, name="called")
    assert (module.width, module.name) == (3, "called")


@contract("15.2")
def test_of_a_function_it_is_a_function_of_its_name() -> None:
    def twice(module: Any, x: Any) -> Any:
        return module(module(x))

    jitted = nn.jit(twice)
    assert jitted.__name__ == "twice"
    plain = nn.apply(twice, nn.Dense(4))
    variables = nn.Dense(4).init(KEY, X)
    equal(nn.apply(jitted, nn.Dense(4))(variables, X), plain(variables, X))


@contract("15.2")
def test_as_a_decorator_it_goes_outside_compact() -> None:
    class Decorated(nn.Module):
        @nn.jit
        @nn.compact
        def __call__(self, x: Any) -> Any:
            TRACES.append(1)
            return nn.Dense(3)(x)

    class Plain(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(3)(x)

    equal(Decorated().init(KEY, X), Plain().init(KEY, X))
    Decorated().init(KEY, X)
    assert len(TRACES) == 1


@contract("15.2")
@pytest.mark.parametrize("target", [3, nn.Dense(3), "Dense", int])
def test_anything_else_is_refused(target: Any) -> None:
    with pytest.raises(TransformTargetError, match="Modules classes or functions"):
        nn.jit(target)


@contract("15.2")
def test_the_first_argument_must_be_a_module() -> None:
    with pytest.raises(TransformTargetError):
        nn.jit(lambda m, x: x)(X, X)


# ---- 15.3


@contract("15.3")
@pytest.mark.parametrize("keys", [KEY, KEYS])
def test_variables_and_outputs_are_those_of_the_plain_module(keys: Any) -> None:
    plain, jitted = Block(), nn.jit(Block)()
    equal(jitted.init(keys, X), plain.init(keys, X))
    variables = plain.init(keys, X)
    kept = ["batch_stats", "intermediates"]
    rngs = {"dropout": kiln.random.key(5)}
    equal(
        jitted.apply(variables, X, mutable=kept, rngs=rngs),
        plain.apply(variables, X, mutable=kept, rngs=rngs),
    )


# ---- 15.4


@contract("15.4")
def test_the_module_is_argument_0() -> None:
    for jitted in (
        nn.jit(Switched, static_argnums=2)(),
        nn.jit(Switched, static_argnums=(0, 2))(),
        nn.jit(Switched, static_argnums=-2)(),
        nn.jit(Switched, static_argnames="train")(),
    ):
        TRACES.clear()
        assert jitted.apply({}, X, True)[0, 0] == 2
        assert jitted.apply({}, X, False)[0, 0] == 1
        assert jitted.apply({}, X + 1, True)[0, 0] == 4
        assert len(TRACES) == 2


@contract("15.4")
def test_static_arguments_of_functions_and_methods() -> None:
    class Holder(nn.Module):
        def setup(self) -> None:
            self.dense = nn.Dense(4)

        def __call__(self, x: Any, twice: bool) -> Any:
            return run(self, x, twice) + self.method(x, twice)

        def method(self, x: Any, twice: bool) -> Any:
            return self.dense(x) * (2 if twice else 1)

        method = nn.jit(method, static_argnums=2)

    def run(module: Any, x: Any, twice: bool) -> Any:
        return module.dense(x) * (2 if twice else 1)

    run = nn.jit(run, static_argnums=(2,))
    variables = Holder().init(KEY, X, True)
    once, twice = (Holder().apply(variables, X, t) for t in (False, True))
    equal(once * 2, twice)


@contract("15.4")
def test_names_follow_from_numbers() -> None:
    jitted = nn.jit(Switched, static_argnums=(2,))()
    assert jitted.apply({}, X, train=True)[0, 0] == 2
    assert jitted.apply({}, x=X, train=False)[0, 0] == 1


@contract("15.4")
def test_different_static_values_are_traced_again() -> None:
    jitted = nn.jit(Switched, static_argnums=(2, 3))()
    for factor in (2, 3, 2.0, 2, 3):
        assert jitted.apply({}, X, True, factor)[0, 0] == factor
    assert len(TRACES) == 3


@contract("15.4")
def test_static_arguments_may_be_any_hashable_objects() -> None:
    jitted = nn.jit(Switched, static_argnums=(2,), static_argnames=("factor",))()
    assert jitted.apply({}, X, "yes", factor=3)[0, 0] == 3
    assert jitted.apply({}, X, (), factor=3)[0, 0] == 1


@contract("15.4")
def test_other_values_must_be_marked_static() -> None:
    with pytest.raises(TypeError, match=r"'?train'?"):
        nn.jit(Switched)().apply({}, X, "yes")


@contract("15.4")
def test_too_few_arguments() -> None:
    for options in ({"static_argnums": (3,)}, {"static_argnums": (2, 3)}):
        with pytest.raises(ValueError, match="fewer positional arguments"):
            nn.jit(Switched, **options)().apply({}, X, True)
    # By name alone, a default is a constant as any other.
    assert nn.jit(Switched, static_argnames=("train", "factor"))().apply({}, X, True)[0, 0] == 2


@contract("15.4")
@pytest.mark.parametrize("value", [[True], {"a": 1}, np.ones(2)])
def test_unhashable_values(value: Any) -> None:
    with pytest.raises(ValueError, match=r"Non-hashable static arguments(.|\n)*"):
        nn.jit(Switched, static_argnums=(2,))().apply({}, X, value)


@contract("15.4")
@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": (7,)},
        {"static_argnums": -9},
        {"static_argnames": "nothing"},
        {"static_argnums": 1, "donate_argnums": 1},
    ],
)
def test_numbers_and_names_there_are_not(options: Any) -> None:
    with pytest.raises(ValueError):
        nn.jit(Switched, **options)


# ---- 15.5


class Reader(nn.Module):
    """Reads one collection and draws one number."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return x + self.variable("offsets", "x").value


class Drawer(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return x + kiln.random.uniform(self.make_rng("noise"))


@contract("15.5")
@pytest.mark.parametrize(
    "variables", [True, "offsets", ["offsets", "params"], nn.DenyList("params")]
)
def test_collections_that_are_lifted(variables: Any) -> None:
    jitted = nn.jit(Reader, variables=variables)()
    assert jitted.apply({"offsets": {"x": 2.0}}, X)[0, 0] == 3


@contract("15.5")
@pytest.mark.parametrize("variables", [False, "params", ["params"], nn.DenyList("offsets")])
def test_a_collection_that_is_not_lifted_looks_empty(variables: Any) -> None:
    with pytest.raises(ScopeCollectionNotFound):
        nn.jit(Reader, variables=variables)().apply({"offsets": {"x": 2.0}}, X)


@contract("15.5")
@pytest.mark.parametrize("rngs", [True, "noise", ["noise"], nn.DenyList("params")])
def test_streams_that_are_lifted(rngs: Any) -> None:
    keys = {"noise": KEY}
    equal(nn.jit(Drawer, rngs=rngs)().apply({}, X, rngs=keys), Drawer().apply({}, X, rngs=keys))


@contract("15.5")
@pytest.mark.parametrize("rngs", [False, "dropout", nn.DenyList("noise")])
def test_a_stream_that_is_not_lifted(rngs: Any) -> None:
    with pytest.raises(InvalidRngError):
        nn.jit(Drawer, rngs=rngs)().apply({}, X, rngs={"noise": KEY})


@contract("15.5")
def test_what_may_be_written_stays_the_same() -> None:
    class Writer(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            count = self.variable("counts", "n", lambda: jnp.zeros(()))
            count.value = count.value + 1
            return x

    jitted = nn.jit(Writer)()
    variables = jitted.init(KEY, X)
    with pytest.raises(ModifyScopeVariableError):
        jitted.apply(variables, X)
    for _ in range(2):
        _, variables = jitted.apply(variables, X, mutable="counts")
    assert variables["counts"]["n"] == 3


@contract("15.5")
def test_sown_and_captured_values_come_back() -> None:
    plain, jitted = Block(), nn.jit(Block)()
    variables = plain.init(KEY, X)
    options = {"mutable": ["batch_stats", "intermediates"], "capture_intermediates": True}
    for _ in range(2):
        equal(jitted.apply(variables, X, **options), plain.apply(variables, X, **options))


# ---- 15.6


@contract("15.6")
def test_equal_blocks_are_traced_once_per_phase() -> None:
    class Tower(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for _ in range(12):
                x = nn.jit(Block)()(x)
            return x

    class Named(nn.Module):
        kind: Any

        @nn.compact
        def __call__(self, x: Any) -> Any:
            for i in range(12):
                x = self.kind(name=f"block_{i}")(x)
            return x

    class Fresh(Block):
        pass

    for module in (Named(nn.jit(Fresh)), Named(nn.jit(Fresh))):
        TRACES.clear()
        variables = module.init(KEYS, X)
        assert len(TRACES) <= 1
        first = len(TRACES)
        module.apply(variables, X, mutable="batch_stats", rngs={"dropout": KEY})
        assert len(TRACES) <= first + 1
    assert len(TRACES) == 0
    equal(variables, Named(Fresh).init(KEYS, X))
    kernels = [v["Dense_0"]["kernel"].tobytes() for v in variables["params"].values()]
    assert len(set(kernels)) == 12
    TRACES.clear()
    Tower().init(KEYS, X)
    assert len(TRACES) <= 1


@contract("15.6")
def test_new_instances_names_paths_and_keys_are_not_traced_again() -> None:
    jitted = nn.jit(Block)
    variables = jitted(5).init(KEY, X)
    TRACES.clear()

    class Outer(nn.Module):
        name_inside: str

        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.jit(Block)(5, name=self.name_inside)(x)

    assert len(TRACES) == 0
    for seed in range(3):
        jitted(5, name=f"n{seed}").init(kiln.random.key(seed), X)
        Outer(f"m{seed}").init(kiln.random.key(seed), X)
    assert len(TRACES) == 0
    jitted(5).apply(variables, X, mutable="batch_stats")
    assert len(TRACES) == 1
    jitted(5).apply(kiln.tree.map(lambda v: v + 1, variables), X + 1, mutable="batch_stats")
    assert len(TRACES) == 1


@contract("15.6")
def test_what_is_traced_again() -> None:
    jitted = nn.jit(Block)
    variables = jitted(6).init(KEY, X)
    calls: list[Any] = [
        lambda: jitted(6).apply(variables, X, mutable="batch_stats"),
        lambda: jitted(6).apply(variables, X, mutable=["batch_stats", "intermediates"]),
        lambda: jitted(6).apply(variables, np.ones((3, 4), "f4"), mutable="batch_stats"),
        lambda: jitted(6).apply(variables, X, mutable="batch_stats", rngs={"dropout": KEY}),
        lambda: jitted(7).init(KEY, X),
        lambda: jitted(6, jnp.tanh).apply(variables, X, mutable="batch_stats"),
    ]
    for call in calls:
        for expected in (1, 0):
            TRACES.clear()
            call()
            assert len(TRACES) == expected


class Plain:
    """A plain object with state."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor


class Configured(nn.Module):
    settings: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        TRACES.append(1)
        found = self.settings
        if isinstance(found, Mapping):
            found = found["factor"]
        if isinstance(found, (list, tuple)):
            found = found[0]
        if isinstance(found, Plain):
            found = found.factor
        return found(x) if callable(found) else x * found


@contract("15.6")
@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: {"factor": 3}, lambda: {"factor": 3.0}),
        (lambda: [3, "a"], lambda: [4, "a"]),
        (lambda: np.full(4, 3.0, "f4"), lambda: np.full(4, 4.0, "f4")),
        (lambda: jnp.full(4, 3.0), lambda: jnp.full(4, 4.0)),
        (lambda: lambda x: x * 3, lambda: lambda x: x * 4),
        (lambda: Plain(3), lambda: Plain(4)),
    ],
    ids=["dict", "list", "ndarray", "array", "lambda", "object"],
)
def test_fields_of_any_kind(make: Any, other: Any) -> None:
    class Own(Configured):
        pass

    jitted = nn.jit(Own)
    for _ in range(3):
        assert float(jitted(make()).apply({}, X)[0, 0]) == 3
    assert len(TRACES) == 1
    plain = float(Own(other()).apply({}, X)[0, 0])
    TRACES.clear()
    assert float(jitted(other()).apply({}, X)[0, 0]) == plain
    assert len(TRACES) == 1


@contract("15.6")
def test_a_field_that_changes_is_seen() -> None:
    settings = {"factor": 3}
    jitted = nn.jit(Configured)(settings)
    assert jitted.apply({}, X)[0, 0] == 3
    settings["factor"] = 5
    assert nn.jit(Configured)(settings).apply({}, X)[0, 0] == 5


@contract("15.6")
def test_fresh_functions_of_equal_content() -> None:
    def run(x: Any, factor: int) -> Any:
        def body(module: Any, x: Any) -> Any:
            return module(x) * factor

        return nn.apply(nn.jit(body), nn.Dense(4))(variables, x)

    variables = nn.Dense(4).init(KEY, X)
    with kiln.explain_recompiles() as records:
        first = run(X, 2)
        count = len([r for r in records if r.function == "body"])
        equal(run(X, 2), first)
        assert len([r for r in records if r.function == "body"]) == count
        equal(run(X, 3) * 2, first * 3)


# ---- 15.7


class Coder(nn.Module):
    def setup(self) -> None:
        self.up = nn.Dense(6)
        self.down = nn.Dense(4)

    def encode(self, x: Any) -> Any:
        TRACES.append("encode")
        return self.up(x)

    def decode(self, x: Any) -> Any:
        TRACES.append("decode")
        return self.down(x)

    def __call__(self, x: Any) -> Any:
        TRACES.append("call")
        return self.decode(self.encode(x))


@contract("15.7")
@pytest.mark.parametrize("methods", [["encode", "decode"], ("encode", "decode")])
def test_only_the_methods_named_are_jitted(methods: Any) -> None:
    class Own(Coder):
        pass

    module = nn.jit(Own, methods=methods)()
    variables = Own().init(KEY, X)
    for _ in range(3):
        equal(module.apply(variables, X), Own().apply(variables, X))
    of_plain = ["call", "encode", "decode"] * 3
    assert sorted(TRACES[3:]) == sorted([*of_plain, "encode", "decode", "call", "call", "call"])


@contract("15.7")
def test_methods_there_are_not() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        nn.jit(Coder, methods=["nothing"])
    with pytest.raises(ValueError, match="must be None, tuple, list, or dict"):
        nn.jit(Coder, methods="encode")


# ---- 15.8


@contract("15.8")
def test_donation_takes_the_argument_and_never_the_variables() -> None:
    class Own(Block):
        pass

    module = nn.jit(Own, donate_argnums=(0, 1))()
    variables = Own().init(KEY, X)
    x = kiln.jit(lambda x: x * 2)(X)
    module.apply(variables, x, mutable="batch_stats")
    assert x.is_deleted()
    assert not any(leaf.is_deleted() for leaf in kiln.tree.leaves(variables))
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        np.asarray(x)


@contract("15.8")
def test_device_and_backend() -> None:
    variables = nn.Dense(4).init(KEY, X)
    last = kiln.devices()[-1]
    out = nn.jit(nn.Dense, device=last)(4).apply(variables, X)
    assert out.devices() == {last}
    out = nn.jit(nn.Dense, backend="cpu")(4).apply(variables, X)
    assert {d.platform for d in out.devices()} == {"cpu"}
    with pytest.raises(ValueError, match="both"):
        nn.jit(nn.Dense, device=last, backend="cpu")


# ---- 15.9


@contract("15.9")
@pytest.mark.parametrize(
    "nest",
    [
        lambda kind: nn.jit(nn.jit(kind)),
        lambda kind: nn.jit(nn.remat(kind)),
        lambda kind: nn.remat(nn.jit(kind)),
    ],
    ids=["itself", "jit of remat", "remat of jit"],
)
def test_nested_in_itself_and_remat(nest: Any) -> None:
    plain, nested = Block(), nest(Block)()
    variables = plain.init(KEYS, X)
    equal(nested.init(KEYS, X), variables)

    def loss(module: Any) -> Any:
        return lambda v: module.apply(v, X, mutable="batch_stats", rngs=KEYS)[0].sum()

    equal(kiln.grad(loss(nested))(variables), kiln.grad(loss(plain))(variables))


@contract("15.9")
def test_inside_jit_grad_and_vmap() -> None:
    plain, jitted = Block(), nn.jit(Block)()
    variables = plain.init(KEY, X)

    def run(module: Any) -> Any:
        def applied(v: Any, x: Any) -> Any:
            return module.apply(v, x, mutable="batch_stats")

        def loss(v: Any, x: Any) -> Any:
            return (applied(v, x)[0] ** 2).sum()

        stack = jnp.stack([X, X + 1])
        return (
            kiln.jit(applied)(variables, X),
            kiln.grad(loss)(variables, X),
            kiln.vmap(applied, (None, 0))(variables, stack),
            kiln.jit(kiln.vmap(kiln.grad(loss), (None, 0)))(variables, stack),
        )

    equal(run(jitted), run(plain))


@contract("15.9")
def test_bind() -> None:
    variables = Coder().init(KEY, X)
    bound = nn.jit(Coder, methods=["encode", "__call__"])().bind(variables)
    equal(bound(X), Coder().apply(variables, X))
    equal(bound.encode(X), Coder().bind(variables).encode(X))
    equal(bound.decode(bound.encode(X)), bound(X))


@contract("15.9")
def test_shared_submodules_and_modules_as_attributes() -> None:
    class User(nn.Module):
        inner: nn.Module

        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(4)(self.inner(x))

    class Outer(nn.Module):
        user: Any

        @nn.compact
        def __call__(self, x: Any) -> Any:
            shared = nn.Dense(4, name="shared")
            return self.user(shared)(x) + self.user(shared)(shared(x))

    plain = Outer(User).init(KEY, X)
    assert set(plain["params"]) == {"shared", "User_0", "User_1"}
    jitted = Outer(nn.jit(User)).init(KEY, X)
    assert set(jitted["params"]) == {"shared", "JitUser_0", "JitUser_1"}
    equal(jitted["params"]["shared"], plain["params"]["shared"])
    given = {"params": {n.replace("User", "JitUser"): v for n, v in plain["params"].items()}}
    equal(Outer(nn.jit(User)).apply(given, X), Outer(User).apply(plain, X))
