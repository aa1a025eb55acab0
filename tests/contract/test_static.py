"""Section 3: static arguments."""

from __future__ import annotations

import collections
import dataclasses
import functools

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import tree_util
from tests.contract.marks import contract


def counted(**options):
    """Return a jitted two-argument function and the list of values it was traced with."""
    seen: list = []

    def f(x, n):
        seen.append(n)
        return x

    return kiln.jit(f, **options), seen


@contract("3.1")
@pytest.mark.parametrize("nums", [1, (1,), [1], iter([1]), -1, (1, 1), np.int64(1), {1}])
def test_argnums_spellings(nums) -> None:
    f, seen = counted(static_argnums=nums)
    f(0, "text")
    assert seen == ["text"]


@contract("3.1")
@pytest.mark.parametrize("nums", ["n", (1.0,), 1.5, [None]])
def test_argnums_of_other_types(nums) -> None:
    with pytest.raises(TypeError):
        counted(static_argnums=nums)


@contract("3.1")
def test_argnums_out_of_range() -> None:
    with pytest.raises(
        ValueError, match=r"static_argnums=\(3,\), but only accepts 2 positional arguments"
    ):
        counted(static_argnums=3)
    with pytest.raises(ValueError, match="static_argnums"):
        counted(static_argnums=-3)
    with pytest.raises(ValueError, match=r"static_argnums=\(0, 2\), but only accepts 2 "):
        counted(static_argnums=(0, 2))
    f = kiln.jit(lambda *args: args[0] * args[2], static_argnums=2)
    assert f(2.0, 1.0, 3) == 6


@contract("3.2")
@pytest.mark.parametrize("names", ["n", ("n",), ["n"], {"n"}, iter(["n"])])
def test_argnames_spellings(names) -> None:
    f, seen = counted(static_argnames=names)
    f(0, n="text")
    f(0, "text")
    assert set(seen) == {"text"}


@contract("3.2")
def test_bad_argnames() -> None:
    with pytest.raises(ValueError, match=r"(?s)static_argnames.*'m'"):
        counted(static_argnames="m")
    with pytest.raises(ValueError, match="positional-only"):
        kiln.jit(lambda x, /: x, static_argnames="x")
    with pytest.raises((TypeError, ValueError)):
        counted(static_argnames=[1])
    f = kiln.jit(lambda x, **kw: x * kw["k"], static_argnames="k")
    assert f(2, k=3) == 6
    with pytest.raises((TypeError, ValueError)):
        counted(static_argnames=3)


@contract("3.3")
def test_inference_between_numbers_and_names() -> None:
    for options in ({"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": -1}):
        f, seen = counted(**options)
        f(0, "a")
        f(0, n="a")
        assert set(seen) == {"a"}
    f, seen = counted(static_argnums=(), static_argnames="n")
    f(0, n="a")
    f(0, 1)
    assert seen[0] == "a"
    assert isinstance(seen[1], kiln.core.Tracer)
    f, seen = counted(static_argnums=1, static_argnames=())
    f(0, "a")
    f(0, n=1)
    assert seen[0] == "a"
    assert isinstance(seen[1], kiln.core.Tracer)


@contract("3.3")
def test_positions_of_partials() -> None:
    def f(a, x, n):
        assert isinstance(n, int)
        return a + x * n

    assert kiln.jit(functools.partial(f, 1), static_argnums=1)(2, 3) == 7
    assert kiln.jit(functools.partial(f, 1), static_argnames="n")(2, n=3) == 7
    assert kiln.jit(functools.partial(f, 1), static_argnums=-1)(2, 3) == 7
    with pytest.raises(ValueError, match="only accepts 2 positional"):
        kiln.jit(functools.partial(f, 1), static_argnums=2)


@contract("3.4")
def test_values_arrive_unchanged() -> None:
    class Config:
        pass

    for value in (Config(), len, np, (1, (2.5, "x")), frozenset([1]), None, float):
        f, seen = counted(static_argnums=1)
        f(0, value)
        assert seen[0] is value
    for value in ((1, 2.0, "x"), 3, 2.5, True, frozenset([1.0])):
        f, seen = counted(static_argnums=1)
        f(0, value)
        assert type(seen[0]) is type(value)
        assert seen[0] == value


@contract("3.5")
@pytest.mark.parametrize("value", [[1], {1: 2}, {1}, np.ones(2)], ids=lambda x: type(x).__name__)
def test_unhashable_values(value) -> None:
    f, _ = counted(static_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments") as error:
        f(0, value)
    assert "'n'" in str(error.value)
    assert type(value).__name__ in str(error.value)
    assert "tuple" in str(error.value)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        f(0, n=(value,))


@contract("3.5")
def test_arrays_are_unhashable() -> None:
    f, _ = counted(static_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        f(0, jnp.ones(2))


@contract("3.6")
def test_key_semantics() -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        rate: float

    Point = collections.namedtuple("Point", "x")
    f, seen = counted(static_argnums=1)
    distinct = [
        1,
        1.0,
        True,
        (1,),
        (1.0,),
        0.0,
        -0.0,
        Point(1),
        Point(1.0),
        frozenset([1]),
        frozenset([1.0]),
        functools.partial(len, 1),
        functools.partial(len, 1.0),
        Settings(1),
        Settings(1.0),
    ]
    for value in distinct:
        f(0, value)
    assert len(seen) == len(distinct)
    nan = float("nan")
    for value in (nan, float("nan"), (nan,), (float("nan"),)):
        f(0, value)
    assert len(seen) == len(distinct) + 2
    for value in distinct:
        f(0, value)
    assert len(seen) == len(distinct) + 2


@contract("3.6")
def test_equal_objects_share_an_entry_and_collisions_do_not() -> None:
    class Equal:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return 7

        def __eq__(self, other):
            return isinstance(other, Equal) and self.k == other.k

    class Identity:
        pass

    f, seen = counted(static_argnums=1)
    f(0, Equal(1))
    f(0, Equal(1))
    assert len(seen) == 1
    f(0, Equal(2))
    assert len(seen) == 2
    a, b = Identity(), Identity()
    f(0, a)
    f(0, b)
    f(0, a)
    assert len(seen) == 4


@contract("3.7")
def test_omitted_static_parameters() -> None:
    f = kiln.jit(lambda x, n=3: x * n, static_argnums=1)
    assert f(2) == 6

    def g(x, n):
        return x * n

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
        kiln.jit(g, static_argnums=1)(2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
        kiln.jit(g, static_argnames="n")(2)
    k = kiln.jit(lambda x, *, mode="double": x * len(mode), static_argnames="mode")
    assert (k(2), k(2, mode="one")) == (12, 6)


@contract("3.6")
def test_own_equality_and_hash_decide() -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        rate: float
        note: object = dataclasses.field(default=None, compare=False)

        def __eq__(self, other):
            return isinstance(other, Settings) and self.note == other.note

        def __hash__(self):
            return 3

    class Length(tuple):
        __slots__ = ()

        def __eq__(self, other):
            return len(self) == len(other)

        def __hash__(self):
            return len(self)

    f, seen = counted(static_argnums=1)
    for note in ("a", "b", "a", [1], [1], [2]):
        f(0, Settings(1.0, note))
    assert [s.note for s in seen] == ["a", "b", [1], [2]]
    f, seen = counted(static_argnums=1)
    for value in (Length([1]), Length([2]), Length([[1]]), Length([1, 2])):
        f(0, value)
    assert [len(s) for s in seen] == [1, 2]
    f, seen = counted(static_argnums=1)
    for value in (np.timedelta64(1, "s"), np.timedelta64(1, "m"), np.timedelta64(1, "s")):
        f(0, value)
    assert len(seen) == 2
    one, two = functools.partial(sum, [1]), functools.partial(sum, [2])
    assert kiln.jit(lambda x, n: x + n(), static_argnums=1)(0, two) == 2
    f, seen = counted(static_argnums=1)
    for value in (one, two, one):
        f(0, value)
    assert seen == [one, two]


@contract("10.1")
def test_metadata_needs_no_hash() -> None:
    @tree_util.register_pytree_node_class
    class Scaled:
        def __init__(self, x, settings):
            self.x, self.settings = x, settings

        def tree_flatten(self):
            return (self.x,), self.settings

        @classmethod
        def tree_unflatten(cls, settings, children):
            return cls(children[0], settings)

    seen = []

    def scale(s):
        seen.append(s.settings)
        return s.x * s.settings["by"][0]

    f = kiln.jit(scale)
    value = Scaled(1.0, {"by": [2]})
    assert [float(f(value)) for _ in range(3)] == [2, 2, 2]
    assert float(f(Scaled(3.0, {"by": [2]}))) == 6
    assert seen == [{"by": [2]}]
    assert seen[0] is value.settings
    assert float(f(Scaled(1.0, {"by": [3]}))) == 3
    assert len(seen) == 2
    # No program is found for what the metadata were before.
    value.settings["by"][0] = 5
    assert [float(f(value)) for _ in range(3)] == [5, 5, 5]
    compiled = f.lower(value).compile()
    assert float(compiled(value)) == 5
    value.settings["by"][0] = 6
    with pytest.raises(TypeError, match="structure"):
        compiled(value)
    assert kiln.eval_shape(scale, value).shape == ()
    assert len(kiln.make_jaxpr(scale)(value).eqns) == 1
    assert float(kiln.grad(scale)(value).x) == 6
    mapped = kiln.vmap(f)(Scaled(jnp.ones(2), {"by": [4]}))
    assert mapped.tolist() == [4, 4]
