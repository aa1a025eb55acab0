"""Section 1: the surface of `jit`."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import inspect
import math
import weakref

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from tests.contract.marks import contract


@contract("1.1")
def test_parameters_are_the_documented_ones() -> None:
    parameters = inspect.signature(kiln.jit).parameters
    assert list(parameters) == [
        "fun",
        "in_shardings",
        "out_shardings",
        "static_argnums",
        "static_argnames",
        "donate_argnums",
        "donate_argnames",
        "keep_unused",
        "device",
        "backend",
        "inline",
        "abstracted_axes",
        "compiler_options",
        "max_traces",
        "threads",
        "check",
    ]
    assert parameters["fun"].kind is inspect.Parameter.POSITIONAL_ONLY
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in list(parameters.values())[1:])
    defaults = {name: p.default for name, p in parameters.items()}
    assert defaults.pop("in_shardings") is defaults.pop("out_shardings")
    assert defaults.pop("keep_unused") is defaults.pop("inline") is False
    del defaults["fun"]
    assert set(defaults.values()) == {None}


@contract("1.2")
def test_decorator_forms() -> None:
    @kiln.jit
    def plain(x):
        return x + 1

    @kiln.jit()
    def called(x):
        return x + 1

    @kiln.jit(static_argnames="n")
    def options(x, n):
        return x + len("." * n)

    @functools.partial(kiln.jit, static_argnums=1)
    def partial(x, n):
        return x + len("." * n)

    assert plain(1) == called(1) == options(1, n=1) == partial(1, 1) == 2


@contract("1.3")
@pytest.mark.parametrize("value", [3, None, "f", [1]])
def test_not_callable(value) -> None:
    with pytest.raises(TypeError, match="Expected a callable value, got"):
        kiln.jit(value)


@contract("1.3")
def test_generator_and_unknown_keyword() -> None:
    def numbers(x):
        yield x

    with pytest.raises(TypeError, match="generator"):
        kiln.jit(numbers)
    with pytest.raises(TypeError, match="no_such_option"):
        kiln.jit(lambda x: x, no_such_option=1)
    with pytest.raises(TypeError, match="no_such_option"):
        kiln.jit(no_such_option=1)
    with pytest.raises(TypeError):
        kiln.jit(fun=lambda x: x)
    with pytest.raises(TypeError, match="Expected a callable value, got"):
        kiln.jit(static_argnums=0)(None)


@contract("1.4")
def test_functions_must_be_weakly_referenceable() -> None:
    class Slotted:
        __slots__ = ()

        def __call__(self, x):
            return x

    with pytest.raises(TypeError, match="cannot create weak reference"):
        kiln.jit(Slotted())(1)


@contract("1.5")
def test_accepted_callables() -> None:
    class Model:
        scale = 3.0

        def method(self, x):
            return x * self.scale

        @classmethod
        def of_class(cls, x):
            return x * cls.scale

        @staticmethod
        def static(x):
            return x * 2

        def __call__(self, x):
            return x + self.scale

    model = Model()
    k = 5.0

    def closure(x):
        return x * k

    def two(x, y, z):
        return x + 10 * y + 100 * z

    assert kiln.jit(lambda x: x + 1)(1) == 2
    assert kiln.jit(closure)(2.0) == 10
    assert kiln.jit(model.method)(2.0) == 6
    assert kiln.jit(Model.of_class)(2.0) == 6
    assert kiln.jit(Model.static)(2.0) == 4
    assert kiln.jit(Model.method, static_argnums=0)(model, 2.0) == 6
    assert kiln.jit(model)(2.0) == 5
    assert kiln.jit(functools.partial(functools.partial(two, 1), 2))(3) == 321
    assert kiln.jit(functools.partial(two, z=1))(1, 2) == 121
    assert kiln.jit(kiln.jit(closure))(2.0) == 10
    assert kiln.jit(jnp.sin)(0.5) == pytest.approx(math.sin(0.5), rel=1e-6)
    assert kiln.jit(abs)(-2) == 2
    assert kiln.jit(sum)([1, 2, 3]) == 6
    assert kiln.jit(kiln.lax.sin)(0.5) == pytest.approx(math.sin(0.5), rel=1e-6)
    assert kiln.jit(kiln.grad(jnp.sin))(0.0) == 1


@contract("1.6")
def test_the_wrapped_object_is_the_one_given() -> None:
    class Scale:
        def __call__(self, x, n=1):
            return x

    for fun in (Scale(), functools.partial(Scale(), n=2), kiln.jit(lambda x: x), abs):
        f = kiln.jit(fun)
        assert f.__wrapped__ is fun
        assert inspect.signature(f) == inspect.signature(fun)
        assert f(2) == 2


@contract("1.6")
def test_the_wrapper_keeps_its_function_alive() -> None:
    def make():
        def f(x):
            return x + 1

        return kiln.jit(f), weakref.ref(f)

    jitted, function = make()
    gc.collect()
    assert function() is not None
    assert jitted(1) == 2


@contract("1.6")
def test_callable_instances_and_methods_are_collected() -> None:
    class Model:
        def __call__(self, x):
            return x + 1

        def method(self, x):
            return x + 2

    model = Model()
    alive = weakref.ref(model)
    called, method = kiln.jit(model), kiln.jit(model.method)
    assert (called(1), method(1)) == (2, 3)
    kiln.jit(lambda x, m=model: m(x))(1)
    del model, called, method
    gc.collect()
    assert alive() is None


@contract("1.6")
def test_wrapper_attributes() -> None:
    def scaled(x, factor: float = 2.0):
        """Scale x."""
        return x * factor

    f = kiln.jit(scaled)
    assert f.__wrapped__ is scaled
    assert f.__name__ == "scaled"
    assert f.__qualname__ == scaled.__qualname__
    assert f.__module__ == scaled.__module__
    assert f.__doc__ == "Scale x."
    assert inspect.signature(f) == inspect.signature(scaled)
    assert "scaled" in repr(f)
    for name in ("lower", "trace", "eval_shape", "clear_cache", "_cache_size"):
        assert callable(getattr(f, name))


@contract("1.6")
def test_functions_and_what_they_close_over_are_collected() -> None:
    class Big:
        pass

    def make():
        big = Big()
        array = jnp.ones(3)

        def f(x):
            return x + array * (big is not None)

        return f, weakref.ref(big)

    f, big = make()
    jitted = kiln.jit(f)
    jitted(jnp.zeros(3))
    kiln.grad(lambda x, g=jitted: g(x).sum())(jnp.zeros(3))
    function = weakref.ref(f)
    del f, jitted
    gc.collect()
    assert function() is None
    assert big() is None


@contract("1.6")
def test_a_reused_id_never_hits_a_dead_entry() -> None:
    for k in range(8):
        namespace: dict = {}
        exec(f"def f(x):\n    return x * {k}", namespace)
        assert kiln.jit(namespace["f"])(2) == 2 * k
        del namespace
        gc.collect()


@contract("1.7")
def test_class_attributes_bind() -> None:
    class Static:
        def __init__(self, k):
            self.k = k

        @functools.partial(kiln.jit, static_argnums=0)
        def scale(self, x):
            return x * self.k

    a, b = Static(2), Static(3)
    assert (a.scale(1.0), b.scale(1.0), a.scale(1.0)) == (2, 3, 2)

    class Untouched:
        @kiln.jit
        def scale(self, x):
            return x

    with pytest.raises(TypeError, match="Untouched"):
        Untouched().scale(1.0)

    @kiln.tree_util.register_pytree_node_class
    class Tree:
        def __init__(self, k):
            self.k = k

        def tree_flatten(self):
            return (self.k,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

        @kiln.jit
        def scale(self, x):
            return x * self.k

    assert (Tree(2.0).scale(3.0), Tree(4.0).scale(3.0)) == (6, 12)
    assert Tree.scale(Tree(2.0), 3.0) == 6


@contract("2.1", "2.2")
def test_containers_are_preserved() -> None:
    Point = collections.namedtuple("Point", "x y")

    @kiln.jit
    def f(tree):
        return tree

    ordered = collections.OrderedDict([("b", 1.0), ("a", 2.0)])
    default = collections.defaultdict(list, {"k": 3})
    tree = ([1, (2.0, None)], {"z": True, "a": 1j}, Point(1, 2), ordered, default)
    out = f(tree)
    assert isinstance(out, tuple)
    assert isinstance(out[0], list)
    assert out[0][1][1] is None
    assert isinstance(out[2], Point)
    assert list(out[3]) == ["b", "a"]
    assert out[4].default_factory is list
    assert all(isinstance(x, kiln.Array) for x in kiln.tree.leaves(out))
    assert out[0][0].weak_type
    assert out[1]["z"].dtype == bool
    assert not out[1]["z"].weak_type
    assert out[0][1][0].weak_type
    assert out[1]["a"].weak_type


@contract("2.1")
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"),
        (1, "int32"),
        (1.0, "float32"),
        (1j, "complex64"),
        (np.float16(1), "float16"),
        (np.bool_(True), "bool"),
        (np.arange(3, dtype=np.int8), "int8"),
        (np.ones((), np.complex64), "complex64"),
    ],
    ids=str,
)
def test_leaves_that_are_arrays(value, dtype) -> None:
    out = kiln.jit(lambda x: x)(value)
    assert isinstance(out, kiln.Array)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, value)


@contract("2.1")
def test_registered_classes_and_empty_trees() -> None:
    @functools.partial(
        kiln.tree_util.register_dataclass, data_fields=["w"], meta_fields=["activation"]
    )
    @dataclasses.dataclass
    class Layer:
        w: object
        activation: str

    out = kiln.jit(lambda layer: Layer(layer.w + len(layer.activation), "none"))(Layer(1, "relu"))
    assert type(out) is Layer
    assert (out.w, out.activation) == (5, "none")
    assert kiln.jit(lambda x: x)(None) is None
    assert kiln.jit(lambda x, y: (x, [], {}, y))(None, ()) == (None, [], {}, ())
    assert len(kiln.make_jaxpr(lambda x: x)((None, {"a": None})).in_avals) == 0


@contract("2.1")
def test_leaves_of_dicts_are_ordered_by_key() -> None:
    jaxpr = kiln.make_jaxpr(lambda d: d)({"b": 1.0, "a": 2, "c": True})
    assert [str(a.dtype) for a in jaxpr.in_avals] == ["int32", "float32", "bool"]
    assert [str(a.dtype) for a in jaxpr.out_avals] == ["int32", "float32", "bool"]


@contract("2.3")
def test_omitted_defaults_are_constants() -> None:
    @kiln.jit
    def f(x, mode="double"):
        return x * 2 if mode == "double" else x

    assert f(3) == 6
    assert len(kiln.make_jaxpr(f)(3).in_avals) == 1
    g = kiln.jit(lambda x, k=2: x * k)
    assert g(3) == 6
    assert "mul c 2 in" in str(kiln.make_jaxpr(g)(3))


@contract("2.4")
def test_binding_errors_are_pythons() -> None:
    def g(x, n):
        return x + n

    for call in (lambda f: f(1), lambda f: f(1, 2, 3), lambda f: f(1, 2, z=3)):
        with pytest.raises(TypeError) as plain:
            call(g)
        with pytest.raises(TypeError) as jitted:
            call(kiln.jit(g))
        assert str(plain.value).split(".")[-1] in str(jitted.value)
    with pytest.raises(TypeError, match=r"g\(\) missing 1 required positional argument: 'n'"):
        kiln.jit(g)(1)


@contract("2.5")
@pytest.mark.parametrize(
    "leaf",
    ["s", b"s", object(), len, {1, 2}, range(3), slice(1), ..., kiln.ShapeDtypeStruct((), "int32")],
    ids=lambda x: type(x).__name__,
)
def test_leaves_that_are_no_arrays(leaf) -> None:
    def user(x, k=None):
        return x

    for args, path in (
        ((leaf,), "x"),
        ((1, {"s": leaf}), "k['s']"),
        ((1, [0, leaf]), "k[1]"),
    ):
        with pytest.raises(TypeError) as error:
            kiln.jit(user)(*args)
        text = str(error.value)
        assert "user" in text
        assert type(leaf).__name__ in text
        assert path in text
        assert "static_arg" in text


@contract("2.5")
def test_objects_that_only_turn_into_arrays() -> None:
    class Wrapped:
        def __jax_array__(self):
            return jnp.ones(2)

    with pytest.raises(TypeError, match=r"(?s)Wrapped.*path x"):
        kiln.jit(lambda x: x)(Wrapped())
    assert kiln.jit(lambda x: x + Wrapped())(1.0).tolist() == [2, 2]


@contract("2.5")
@pytest.mark.parametrize(
    "use",
    [
        jnp.asarray,
        lambda m: jnp.array([m, m]),
        lambda m: jnp.ones(2) + m,
        lambda m: m + jnp.ones(2),
        lambda m: jnp.ones(2) < m,
        jnp.sin,
        lambda m: lax.add(m, m),
        lambda m: jnp.where(m, 1, 2),
        lambda m: jnp.ones(2)[m > 1],
        lambda m: jnp.ones(2).at[0].set(m[1:]),
        kiln.jit(lambda x: x),
        lambda m: kiln.jit(lambda x: {"a": x[0] + 1})([m]),
        lambda m: kiln.jit(lambda: m)(),
        lambda m: kiln.jit(lambda x: x).lower(np.ones(2)).compile()(m),
        lambda m: kiln.eval_shape(lambda x: x, m),
        lambda m: kiln.grad(jnp.sum)(m),
        kiln.vmap(jnp.sin),
        kiln.device_put,
    ],
)
def test_masked_arrays_do_not_lose_their_masks(use) -> None:
    with pytest.raises(TypeError, match=r"(?s)masked array.*\.filled"):
        use(np.ma.masked_array([1.0, 2.0], [True, False]))


@contract("2.6")
def test_results_that_are_no_arrays() -> None:
    def user(x):
        return {"a": "text", "b": x}

    with pytest.raises(TypeError, match=r"(?s)user.*str.*\['a'\].*not a valid"):
        kiln.jit(user)(1)


@contract("2.7")
def test_large_integers() -> None:
    def user(n):
        return n

    f = kiln.jit(user)
    for _ in range(2):
        with pytest.raises(OverflowError, match="n"):
            f(2**40)
        assert f(2**31 - 1) == 2**31 - 1
        assert f(-(2**31)) == -(2**31)
    with pytest.raises(OverflowError, match=r"d\['a'\]"):
        kiln.jit(lambda x, d: x)(1, {"a": -(2**31) - 1})
    with kiln.enable_x64(True):
        assert f(2**40) == 2**40


@contract("2.8")
def test_results_do_not_alias_numpy_buffers() -> None:
    source = np.arange(64, dtype=np.float32)
    out = kiln.jit(lambda x: x)(source)
    source[:] = -1
    np.testing.assert_array_equal(out, np.arange(64))
    held = jnp.asarray(source)
    source[:] = 7
    np.testing.assert_array_equal(held, np.full(64, -1))
    placed = kiln.device_put(source)
    closed = kiln.jit(lambda x: x + source)
    lowered = kiln.jit(lambda x: x - source).lower(0.0)
    assert closed(0.0)[0] == 7
    source[:] = 9
    assert closed(0.0)[0] == 7
    assert lowered.compile()(0.0)[0] == -7
    assert placed[0] == 7


@contract("2.9")
def test_keyword_order_and_spelling() -> None:
    traces = []

    @kiln.jit
    def f(x, y, z):
        traces.append(1)
        return x + 10 * y + 100 * z

    assert f(x=1, y=2, z=3) == f(z=3, x=1, y=2) == f(1, 2, z=3) == f(1, 2, 3) == 321
    assert f(z=3, y=2, x=1) == 321
    assert len(traces) == 1


@contract("2.9")
def test_parameters_of_any_name() -> None:
    def f(self, fun, args, kwargs):
        return self + 10 * fun + 100 * args + 1000 * kwargs

    given = {"self": 1, "fun": 2, "args": 3, "kwargs": 4}
    g = kiln.jit(f)
    assert g(**given) == g(1, 2, 3, 4) == 4321
    assert g.lower(**given).compile()(**given) == 4321
    assert g.trace(**given).out_info == g.eval_shape(**given) == kiln.eval_shape(f, **given)
    assert kiln.tree_util.Partial(f, self=1)(fun=2, args=3, kwargs=4) == 4321
    for rules in (kiln.custom_jvp, kiln.custom_vjp):
        with pytest.raises(Exception, match=r"(?i)def(jvp|vjp)"):
            rules(f)(**given)
