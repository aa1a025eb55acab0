"""What programs of jitted modules are kept under, and what they keep."""

from __future__ import annotations

import collections
import dataclasses
import gc
import types
import weakref
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.linen as nn
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.content.class_content import Unreadable
from kiln.linen.transforms.content import ModuleReading

X = np.ones((2, 4), np.float32)
KEY = kiln.random.key(0)


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Any:
    with override(engine="reference"):
        yield


def key_of(value: Any) -> Any:
    return ModuleReading(lambda module: None).read(value)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


@dataclasses.dataclass
class Mutable:
    x: Any


class Hashed:
    def __init__(self, x: Any) -> None:
        self.x, self.noise = x, object()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and other.x == self.x

    def __hash__(self) -> int:
        return hash(self.x)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: [x, {"a": x}],
        lambda x: {x},
        lambda x: np.full(3, x),
        lambda x: jnp.full(3, x),
        lambda x: (x, None),
        Slotted,
        Mutable,
        Hashed,
        lambda x: nn.Dense(x),
        lambda x: [nn.Dense(x, name="any")],
        lambda x: lambda y: y + x,
    ],
)
def test_values_are_told_by_content(make: Any) -> None:
    assert key_of(make(2)) == key_of(make(2))
    assert hash(key_of(make(2))) == hash(key_of(make(2)))
    assert key_of(make(2)) != key_of(make(3))
    if make is not Hashed:
        assert key_of(make(2)) != key_of(make(2.0))


@pytest.mark.parametrize("array", [np.array, jnp.array])
def test_arrays_of_the_same_bytes_are_told_by_shape_and_type(array: Any) -> None:
    shapes = [np.zeros(shape, np.float32) for shape in ((6,), (2, 3), (3, 2))]
    keys = {key_of(array(x)) for x in (*shapes, np.zeros(6, np.int32))}
    assert len(keys) == 4


def test_what_cannot_be_read_is_told_by_identity() -> None:
    calls: list[int] = []

    def reaching(x: Any) -> Any:
        calls.append(1)
        return x

    a, b = iter(()), {1, 2}.__iter__()
    assert key_of(reaching) == key_of(reaching)
    assert key_of(reaching) != key_of(lambda x: x)
    with pytest.raises(Unreadable):
        key_of(a)
    with pytest.raises(Unreadable):
        key_of([b])
    with pytest.raises(Unreadable):
        kiln.jit(lambda x: key_of([x]))(1.0)


class OtherDict(dict[str, Any]):
    """A dict of another class, which may hold more than items."""


@pytest.mark.parametrize(
    "value",
    [
        np.ma.masked_array([1.0, 2.0], [False, True]),
        np.zeros(2).view(np.recarray),
        np.zeros(2, [("a", "i4")]),
        np.array([[], None], object)[:1],
        OtherDict(a=1),
        collections.defaultdict(int),
        collections.deque([1]),
        bytearray(b"a"),
        types.SimpleNamespace(a=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_hold_more_than_is_read_is_not_compared(value: Any) -> None:
    with pytest.raises(Unreadable):
        key_of([value])


def test_the_mask_of_a_field_is_seen() -> None:
    class Masked(nn.Module):
        values: Any

        def __call__(self, x: Any) -> Any:
            return x * float(self.values.sum())

    values = np.ma.masked_array([1.0, 2.0], [False, False])
    jitted = nn.jit(Masked)
    assert jitted(values).apply({}, X)[0, 0] == 3
    values.mask = [False, True]
    assert jitted(values).apply({}, X)[0, 0] == 1


def test_without_content_functions_are_told_by_identity() -> None:
    make = lambda: lambda x: x * 2
    f = make()
    assert key_of(f) == key_of(make())
    with override(content=False):
        assert key_of(f) == key_of(f)
        assert key_of(f) != key_of(make())


def test_which_fields_are_the_same_object_counts() -> None:
    def pair(a: Any, b: Any) -> Any:
        return nn.Sequential([a, b])

    dense = nn.Dense(2)
    assert key_of(pair(dense, dense)) != key_of(pair(nn.Dense(2), nn.Dense(2)))


def test_one_class_has_one_jitted_form() -> None:
    assert nn.jit(nn.Dense) is nn.jit(nn.Dense)
    assert nn.jit(nn.Dense) is nn.jit(nn.Dense, variables=nn.DenyList(()))
    assert nn.jit(nn.Dense, rngs="params") is not nn.jit(nn.Dense)

    class Derived(nn.Dense):
        pass

    assert issubclass(nn.jit(Derived), Derived)


def test_an_exchanged_method_makes_another_form() -> None:
    class Changing(nn.Module):
        def __call__(self, x: Any) -> Any:
            return x + 1

    before = nn.jit(Changing)
    assert before().apply({}, X)[0, 0] == 2
    Changing.__call__ = lambda self, x: x + 2  # type: ignore[method-assign]
    assert nn.jit(Changing)().apply({}, X)[0, 0] == 3


def test_nothing_is_kept_of_the_modules() -> None:
    class Held:
        pass

    held = Held()
    jitted = nn.jit(nn.Dense)(3)
    variables = jitted.init(KEY, X)
    marked = kiln.tree.map(lambda x: x, variables)
    jitted.apply(marked, X)
    watch = weakref.ref(held)
    del held
    kinds = []

    def once() -> Any:
        class Local(nn.Module):
            @nn.compact
            def __call__(self, x: Any) -> Any:
                return nn.Dense(2)(x)

        kinds.append(weakref.ref(Local))
        return nn.jit(Local)().init(KEY, X)

    once()
    gc.collect()
    assert watch() is None
    assert kinds[0]() is None


def test_without_jit_it_runs_as_python() -> None:
    seen = []

    class Seeing(nn.Module):
        def __call__(self, x: Any) -> Any:
            seen.append(type(x))
            return x

    with kiln.disable_jit():
        nn.jit(Seeing)().apply({}, X)
    assert seen == [np.ndarray]


def test_an_unbound_module_says_so() -> None:
    with pytest.raises(nn.errors.CallCompactUnboundModuleError):
        nn.jit(nn.Dense)(2)(X)


def test_errors_name_the_arguments() -> None:
    class Two(nn.Module):
        def __call__(self, x: Any, options: Any, *, other: Any = 1) -> Any:
            return x

    with pytest.raises(TypeError, match=r"options\['a'\]\[1\]"):
        nn.jit(Two)().apply({}, X, {"a": [1, "text"]})
    with pytest.raises(TypeError, match="other"):
        nn.jit(Two, static_argnums=(2,))().apply({}, X, 3, other="text")


def test_a_function_that_changes_is_recorded_again() -> None:
    factor = 2

    def body(module: Any, x: Any) -> Any:
        return x * factor

    def run(x: Any) -> Any:
        return nn.apply(nn.jit(body), nn.Dense(4))({}, x)

    assert run(X)[0, 0] == 2
    factor = 3
    assert run(X)[0, 0] == 3
    assert run(np.ones(5, "f4"))[0] == 3
    factor = 2
    assert run(np.ones(5, "f4"))[0] == 2


def test_draws_are_counted_over_calls() -> None:
    class Draws(nn.Module):
        @nn.compact
        def __call__(self) -> Any:
            return kiln.random.bits(self.make_rng("noise"))

    class Calls(nn.Module):
        kind: Any

        @nn.compact
        def __call__(self) -> Any:
            draws = self.kind(name="d")
            return [int(draws()) for _ in range(3)], int(kiln.random.bits(self.make_rng("noise")))

    rngs = {"noise": KEY}
    assert Calls(nn.jit(Draws)).apply({}, rngs=rngs) == Calls(Draws).apply({}, rngs=rngs)


def test_traced_fields() -> None:
    class Scale(nn.Module):
        by: Any

        def __call__(self, x: Any) -> Any:
            return x * self.by

    run = kiln.jit(lambda by, x: nn.jit(Scale)(by).apply({}, x))
    assert run(2.0, X)[0, 0] == 2
    assert run(3.0, X)[0, 0] == 3


class Methods(nn.Module):
    """Has methods of different length."""

    @nn.compact
    def __call__(self, x: Any, features: int) -> Any:
        return nn.Dense(features)(x)

    def doubled(self, x: Any) -> Any:
        return 2 * x


@pytest.mark.parametrize(
    "options",
    [{"static_argnums": 2}, {"static_argnums": (2,)}, {"static_argnames": ["features"]}],
)
def test_methods_mind_the_static_arguments_they_have(options: Any) -> None:
    module = nn.jit(Methods, methods=["__call__", "doubled"], **options)()
    variables = module.init(KEY, X, 3)
    assert module.apply(variables, X, 3).shape == (2, 3)
    assert module.apply(variables, X, method="doubled").tolist() == (2 * X).tolist()


def test_static_arguments_that_no_method_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"static_argnums=\(3,\)"):
        nn.jit(Methods, methods=["__call__", "doubled"], static_argnums=3)
    with pytest.raises(ValueError, match="width"):
        nn.jit(Methods, methods=["__call__", "doubled"], static_argnames="width")
    with pytest.raises(ValueError, match=r"static_argnums=\(2,\)"):
        nn.jit(Methods, methods=["doubled"], static_argnums=2)


def test_retraces_are_explained() -> None:
    class Scaled(nn.Module):
        factor: float

        @nn.compact
        def __call__(self, x: Any) -> Any:
            return x * self.param("w", nn.initializers.ones, ()) * self.factor

    module, other = nn.jit(Scaled)(2.0), nn.jit(Scaled)(3.0)
    variables = module.init(KEY, X)
    with kiln.explain_recompiles() as records:
        module.apply(variables, X)
        module.apply(variables, X[:1])
        other.apply(variables, X)
    first, second, third = [str(r) for r in records if r.function == "__call__"]
    assert "argument variables: a dict with keys [] before" in first
    assert "argument x: float32[2,4] before, float32[1,4] now" in second
    assert "static value module: JitScaled with configuration" in third
