"""Modules: fields, names, variables, binding, and what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen as nn
from kiln.linen import errors
from kiln.linen.module import SetupState


class Dense(nn.Module):
    features: int
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Any) -> Any:
        w = self.param("kernel", kiln.nn.initializers.lecun_normal(), (x.shape[-1], self.features))
        y = x @ w
        if self.use_bias:
            y = y + self.param("bias", kiln.nn.initializers.zeros, (self.features,))
        return y


class Stack(nn.Module):
    widths: Sequence[int]

    def setup(self) -> None:
        self.layers = [Dense(n) for n in self.widths]
        self.heads = {"a": Dense(1), "b": (Dense(2),)}

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.heads["a"](x), self.heads["b"][0](x)

    def first(self, x: Any) -> Any:
        return self.layers[0](x)


X = np.ones((2, 3), np.float32)
KEY = kiln.random.key(0)


def shapes(variables: Any) -> Any:
    return kiln.tree.map(lambda leaf: leaf.shape, variables)


def test_compact_modules_make_their_parameters() -> None:
    variables = Dense(4).init(KEY, X)
    assert shapes(variables) == {"params": {"bias": (4,), "kernel": (3, 4)}}
    assert Dense(4).apply(variables, X).shape == (2, 4)


def test_setup_names_submodules_by_attribute_position_and_key() -> None:
    model = Stack((4, 5))
    variables = model.init(KEY, X)
    assert set(variables["params"]) == {"layers_0", "layers_1", "heads_a", "heads_b_0"}
    assert model.apply(variables, X, method="first").shape == (2, 4)
    assert model.apply(variables, X, method=Stack.first).shape == (2, 4)
    assert model.apply(variables, X, method=model.first).shape == (2, 4)
    assert model.apply(variables, X, method=lambda m, x: m.first(x) + 1).shape == (2, 4)


def test_a_method_may_be_the_name_of_a_submodule() -> None:
    class Holder(nn.Module):
        inner: nn.Module

        def __call__(self, x: Any) -> Any:
            return 2 * self.inner(x)

    model = Holder(Dense(4))
    variables = model.init(KEY, X)
    assert list(variables["params"]) == ["inner"]
    once = model.apply(variables, X, method="inner")
    np.testing.assert_allclose(model.apply(variables, X), 2 * once, 1e-6)
    assert kiln.tree.structure(model.init(KEY, X, method="inner")) == kiln.tree.structure(variables)


def test_compact_submodules_are_named_by_class_and_count() -> None:
    class Twice(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            shared = Dense(3)
            x = shared(shared(x))
            return Dense(3)(Dense(3, name="named")(x))

    params = Twice().init(KEY, X)["params"]
    assert list(params) == ["Dense_0", "named", "Dense_1"]


def test_modules_given_as_fields_are_named_by_the_field() -> None:
    class Around(nn.Module):
        inner: nn.Module
        others: Any

        def __call__(self, x: Any) -> Any:
            x = self.inner(x)
            for other in self.others:
                x = other(x)
            return x

    shared = Dense(3)
    params = Around(shared, [shared, Dense(3)]).init(KEY, X)["params"]
    assert set(params) == {"inner", "others_1"}


def test_equality_and_hash_are_those_of_the_fields() -> None:
    assert Dense(3) == Dense(3, name="other")
    assert hash(Dense(3)) == hash(Dense(3, parent=None))
    assert Dense(3) != Dense(4)
    assert Dense(3) != Stack((3,))


def test_mutable_collections_come_back() -> None:
    class Counter(nn.Module):
        @nn.compact
        def __call__(self) -> Any:
            count = self.variable("counts", "n", lambda: jnp.zeros((), jnp.int32))
            if not self.is_initializing():
                count.value += 1
            return count.value

    variables = Counter().init({})
    result, updated = Counter().apply(variables, mutable=["counts"])
    assert int(result) == int(updated["counts"]["n"]) == 1
    assert int(variables["counts"]["n"]) == 0
    with pytest.raises(errors.ModifyScopeVariableError, match=r"counts.*immutable"):
        Counter().apply(variables)


def test_keys_depend_on_path_and_count_and_fall_back_to_params() -> None:
    class Draw(nn.Module):
        @nn.compact
        def __call__(self) -> Any:
            return [kiln.random.bits(self.make_rng(name)) for name in ("a", "b", "a")]

    one = Draw().apply({}, rngs=KEY)
    again = Draw().apply({}, rngs={"params": KEY})
    assert [int(x) for x in one] == [int(x) for x in again]
    assert len({int(x) for x in one}) == 3
    with pytest.raises(errors.InvalidRngError, match='needs PRNG for "a"'):
        Draw().apply({})


def test_sow_perturb_and_capture() -> None:
    class Sower(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            h = self.perturb("h", Dense(3)(x))
            self.sow("intermediates", "h", h)
            return h

    variables = Sower().init(KEY, X)
    assert set(variables) == {"params", "perturbations"}
    _, sown = Sower().apply(variables, X, capture_intermediates=True)
    inside = sown["intermediates"]
    assert set(inside) == {"h", "__call__", "Dense_0"}
    assert isinstance(inside["h"], tuple)


def test_bind_and_unbind() -> None:
    model = Stack((4, 5))
    variables = model.init(KEY, X)
    bound = model.bind(variables)
    assert bound.layers[1].path == ("layers_1",)
    module, inner = bound.layers[1].unbind()
    assert module == Dense(5)
    assert shapes(inner) == {"params": {"bias": (5,), "kernel": (4, 5)}}
    with pytest.raises(errors.CallUnbindOnUnboundModuleError):
        model.unbind()


def test_mistakes_are_named() -> None:
    variables = Dense(4).init(KEY, X)
    with pytest.raises(errors.ScopeParamShapeError, match="kernel"):
        Dense(4).apply(variables, np.ones((2, 5), np.float32))
    with pytest.raises(errors.ScopeCollectionNotFound, match="kernel"):
        Dense(4).apply({}, X)
    with pytest.raises(errors.ScopeParamNotFoundError, match="bias"):
        Dense(4).apply({"params": {"kernel": variables["params"]["kernel"]}}, X)
    with pytest.raises(errors.ApplyScopeInvalidVariablesStructureError):
        Dense(4).apply({"params": variables}, X)
    with pytest.raises(errors.CallCompactUnboundModuleError):
        Dense(4)(X)
    with pytest.raises(errors.SetAttributeFrozenModuleError):
        Dense(4).bind(variables).features = 3
    with pytest.raises(errors.InvalidRngError):
        Dense(4).init("no key", X)
    with pytest.raises(errors.InvalidInstanceModuleError):
        Dense.init(KEY, X)


def test_every_message_has_three_lines() -> None:
    with pytest.raises(errors.ScopeCollectionNotFound) as caught:
        Dense(4).apply({}, X)
    assert len(str(caught.value).splitlines()) == 3
    assert "test_module.py" in str(caught.value).splitlines()[0]


def test_nothing_traced_inside_a_module_is_left_in_a_variable() -> None:
    class Mixed(nn.Module):
        transform: Any

        @nn.compact
        def __call__(self, x: Any) -> Any:
            return self.transform(lambda row: Dense(3)(row))(x)

    variables = Mixed(kiln.vmap).init(KEY, X)
    assert Mixed(kiln.jit).apply(variables, X).shape == (2, 3)
    with pytest.raises(errors.JaxTransformError):
        Mixed(kiln.jit).init(KEY, X)


def test_apply_under_jit_grad_and_eval_shape() -> None:
    model = Stack((4, 5))
    variables = kiln.jit(model.init)(KEY, X)
    assert shapes(kiln.eval_shape(model.init, KEY, X)) == shapes(variables)
    loss = lambda v: sum(y.sum() for y in model.apply(v, X))
    gradient = kiln.jit(kiln.grad(loss))(variables)
    assert shapes(gradient) == shapes(variables)


class Held(nn.Module):
    parts: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return self.parts["foo"](x) + self.parts["bar"](x)


def test_a_module_that_is_there_twice_has_the_first_name_in_order() -> None:
    part = nn.Dense(2)
    variables = Held({"foo": part, "bar": part}).init(kiln.random.key(0), jnp.ones((1, 2)))
    assert list(variables["params"]) == ["parts_bar"]


def test_a_module_without_a_call() -> None:
    class Silent(nn.Module):
        pass

    with pytest.raises(AttributeError, match='"Silent" object has no attribute "__call__"'):
        Silent().init(kiln.random.key(0))


def test_a_bound_module_has_no_hash() -> None:
    assert hash(nn.Dense(2)) == hash(nn.Dense(2))
    with pytest.raises(TypeError, match="modules that hold variables"):
        hash(nn.Dense(2).bind({}))


def test_showing_a_module_does_not_set_it_up() -> None:
    module = Held(nn.Dense(2)).bind({})
    assert "Dense" in repr(module)
    assert module._state.setup_called is module.parts._state.setup_called is SetupState.NEW


def test_the_original_method_is_not_intercepted() -> None:
    calls = []

    def interceptor(following: Any, args: Any, kwargs: Any, about: Any) -> Any:
        calls.append(about.method_name)
        return about.orig_method(*args, **kwargs)

    with nn.intercept_methods(interceptor):
        nn.Dense(2).init(kiln.random.key(0), jnp.ones((1, 2)))
    assert calls.count("__call__") == 1


def test_fields_of_the_user_come_first() -> None:
    assert list(Held.__dataclass_fields__) == ["parts", "parent", "name"]
