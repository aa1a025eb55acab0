"""Which calls the runtime makes by itself, and that it leaves all others to the definition."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.jit.function import JitFunction


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects the calls that the runtime does not make."""
    seen: list[Any] = []
    definition = JitFunction._call

    def noted(self: Any, args: Any, kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return definition(self, args, kwargs)

    monkeypatch.setattr(JitFunction, "_call", noted)
    return seen


class Pair(NamedTuple):
    a: Any
    b: Any


@functools.partial(kiln.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["unit"])
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    unit: Any = "m"


class Tied(kiln.struct.PyTreeNode):
    w: Any
    apply: Any = kiln.struct.field(pytree_node=False, default=None)


def f(*args: Any, **kwargs: Any) -> Any:
    return jnp.asarray(sum(jnp.sum(x) for x in kiln.tree.leaves((args, kwargs))))


VALUES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((jnp.ones(3),), {}),
    ((), {}),
    ((1.5, 2, True, 1j), {}),
    ((np.ones((2, 3), np.float32), np.float32(2), np.int32(3)), {}),
    (({"b": jnp.ones(2), "a": [1.0, (jnp.ones(()), None)]}, ()), {}),
    ((Pair(jnp.ones(2), {"x": 1}),), {}),
    ((1.0,), {"z": jnp.ones(2), "y": {"k": 3.0}}),
    ((Layer(jnp.ones(2), [Layer(1.0, None, ("cm", 2))]),), {"tied": Tied(jnp.ones(3), len)}),
]


@pytest.mark.parametrize(("args", "kwargs"), VALUES)
def test_a_call_like_one_made_twice_is_the_runtimes(
    slow: list[Any], args: Any, kwargs: Any
) -> None:
    jitted = kiln.jit(f)
    results = [jitted(*args, **kwargs) for _ in range(5)]
    assert len(slow) == 2
    assert {float(abs(r)) for r in results} == {float(abs(f(*args, **kwargs)))}


ALMOST: list[tuple[Any, Any]] = [
    (jnp.ones(3), jnp.ones(4)),
    (jnp.ones(3), jnp.ones(3, jnp.int32)),
    (jnp.ones(3), np.ones(3, np.float32)),
    (jnp.ones(()), 1.0),
    (np.ones(3, np.float32), np.ones(3, np.int32)),
    (np.ones((2, 3)), np.ones((3, 2))),
    (1, True),
    (1.0, 1),
    (1, 2**31),
    ([1.0], (1.0,)),
    ({"a": 1.0}, {"b": 1.0}),
    ({"a": 1.0}, {"a": 1.0, "b": 1.0}),
    ({"a": 1.0}, collections.OrderedDict(a=1.0)),
    ({"a": 1.0}, {"a": None}),
    (None, 1.0),
    (1.0, None),
    (1.0, [1.0]),
    ((1.0, 2.0), Pair(1.0, 2.0)),
    ([1.0, 2.0], [1.0]),
    (Layer(1.0, 2.0), Layer(1.0, 2)),
    (Layer(1.0, 2.0), Layer(1.0, None)),
    (Layer(1.0, 2.0), Layer(1.0, 2.0, "cm")),
    (Layer(1.0, 2.0, 1), Layer(1.0, 2.0, 2.0)),
    (Layer(1.0, 2.0, (1, "a")), Layer(1.0, 2.0, (1, "b"))),
    (Layer(1.0, 2.0), (1.0, 2.0)),
    (Tied(1.0, len), Tied(1.0, abs)),
]


@pytest.mark.parametrize(("known", "other"), ALMOST)
def test_a_call_that_differs_is_not(slow: list[Any], known: Any, other: Any) -> None:
    jitted = kiln.jit(lambda x: [jnp.sum(leaf) for leaf in kiln.tree.leaves(x)])
    for _ in range(3):
        jitted(known)
    del slow[:]
    if isinstance(other, int) and other == 2**31:
        with pytest.raises(OverflowError, match="x"):
            jitted(other)
    else:
        want = [np.sum(np.asarray(leaf)) for leaf in kiln.tree.leaves(other)]
        assert [float(x) for x in jitted(other)] == [float(x) for x in want]
    assert len(slow) == 1


def test_statics(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x, n, *, mode: x * n + len(mode), static_argnames=("n", "mode"))
    for n, mode in [(2, "ab"), (3, "ab"), (2, "a")]:
        for _ in range(4):
            assert float(jitted(1.0, n, mode=mode)) == n + len(mode)
            assert float(jitted(1.0, n=n, mode=mode)) == n + len(mode)
    assert len(slow) == 9
    # 2 and 2.0 and True are equal and not the same.
    assert jitted(1, 2.0, mode="ab").dtype == jnp.float32
    assert float(jitted(1, True, mode="ab")) == 3


class Changing:
    """A static value whose hash and equality go by a field that may change."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Changing) and self.value == other.value


def test_static_objects_go_by_hash_and_equality(slow: list[Any]) -> None:
    static = Changing(1)
    jitted = kiln.jit(lambda x, s: x + s.value, static_argnums=1)
    for value in (1, 1, 1, 5, 5, 1, 5):
        static.value = value
        assert float(jitted(1.0, static)) == 1 + value
    assert len(slow) == 4
    assert float(jitted(1.0, Changing(5))) == 6
    assert len(slow) == 4
    assert float(jitted(1.0, Changing(2))) == 3
    assert len(slow) == 5


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A static value compared by its fields, each by type too."""

    value: Any


@pytest.mark.parametrize(
    ("known", "same", "other"),
    [
        (Frozen(1), Frozen(1), Frozen(1.0)),
        (frozenset({1}), frozenset({1}), frozenset({True})),
        (np.float32(1), np.float32(1), np.float64(1)),
        (functools.partial(abs, 1), functools.partial(abs, 1), functools.partial(abs, True)),
        (Pair(1, 2), Pair(1, 2), Pair(1, 2.0)),
        (float("nan"), float("nan"), 0.0),
        (0.0, 0.0, -0.0),
        ((1, (2, "a")), (1, (2, "a")), (1, (2.0, "a"))),
    ],
)
def test_static_values_of_all_kinds(slow: list[Any], known: Any, same: Any, other: Any) -> None:
    seen = []
    jitted = kiln.jit(lambda x, s: (seen.append(s), x)[1], static_argnums=1)
    for _ in range(3):
        jitted(1.0, known)
    assert len(slow) == 2
    jitted(1.0, known)
    jitted(1.0, same)
    assert len(seen) == 1
    jitted(1.0, other)
    assert len(seen) == 2


def test_statics_that_cannot_be_compared() -> None:
    class Hostile:
        broken = False

        def __hash__(self) -> int:
            if self.broken:
                raise RuntimeError("no hash today")
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no equality")

    static = Hostile()
    jitted = kiln.jit(lambda x, s: x + 1, static_argnums=1)
    for _ in range(3):
        assert float(jitted(1.0, static)) == 2
    static.broken = True
    with pytest.raises(RuntimeError, match="no hash today"):
        jitted(1.0, static)
    with pytest.raises(ValueError, match="no equality"):
        jitted(1.0, Hostile())


def test_fields_that_cannot_be_had(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda layer: layer.w + layer.b)
    for _ in range(3):
        assert float(jitted(Layer(1.0, 2.0))) == 3.0
    assert len(slow) == 2
    broken = Layer(1.0, 2.0)
    del broken.b
    with pytest.raises(AttributeError, match="b"):
        jitted(broken)
    with pytest.raises(TypeError):
        jitted(Layer(1.0, "x"))
    assert float(jitted(Layer(1.0, 2.0))) == 3.0


def test_metadata_goes_by_hash_and_equality(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda layer: layer.w + layer.unit.value)
    unit = Changing(1)
    for value in (1, 1, 1, 5, 5, 5, 1):
        unit.value = value
        assert float(jitted(Layer(1.0, 2.0, unit))) == 1 + value
    assert float(jitted(Layer(1.0, 2.0, Changing(5)))) == 6.0


def test_metadata_that_cannot_be_compared(slow: list[Any]) -> None:
    class Sour:
        sour = False

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            if not isinstance(other, Sour):
                return False
            if self.sour or other.sour:
                raise ZeroDivisionError
            return True

    jitted = kiln.jit(lambda layer: layer.w + layer.b)
    for _ in range(4):
        assert float(jitted(Layer(1.0, 2.0, Sour()))) == 3.0
    assert len(slow) == 2
    sour = Sour()
    sour.sour = True
    with pytest.raises(ZeroDivisionError):
        jitted(Layer(1.0, 2.0, sour))


def test_what_was_known_is_asked_whether_it_is_equal(slow: list[Any]) -> None:
    class Lopsided:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            return self.name == "easy"

    easy, hard = Lopsided("easy"), Lopsided("hard")
    traced: list[str] = []
    jitted = kiln.jit(lambda layer: (traced.append(layer.unit.name), layer.w)[1])
    static = kiln.jit(lambda x, unit: (traced.append(unit.name), x)[1], static_argnums=1)
    for call in (lambda unit: jitted(Layer(1.0, 2.0, unit)), lambda unit: static(1.0, unit)):
        traced.clear()
        for unit in (hard, hard, hard, easy):
            call(unit)
        assert traced == ["hard", "easy"]


def test_nodes_of_all_kinds_are_the_runtimes(slow: list[Any]) -> None:
    class Model:
        def apply(self, x: Any) -> Any:
            return 2.0 * x

    class Rule(NamedTuple):
        name: str
        apply: Any

    model = Model()
    nodes: list[Any] = [
        Tied(3.0, model.apply),
        Tied(3.0, Rule("twice", model.apply)),
        Tied(3.0, np.dtype("float32")),
        collections.OrderedDict(b=1.0, a=2.0),
        collections.defaultdict(list, b=1.0),
        kiln.tree_util.Partial(Model.apply, model, 2.0, x=[1.0]),
        kiln.linen.FrozenDict({"a": {"b": 1.0}}),
        [Tied(1.0, [].append), Tied(2.0, {}.get), Layer(Tied(2.0, abs), None)],
    ]
    for node in nodes[:5] + nodes[6:]:
        slow.clear()
        jitted = kiln.jit(kiln.tree.leaves)
        want = kiln.tree.leaves(node)
        for _ in range(4):
            assert [float(x) for x in jitted(node)] == want
        assert len(slow) == 2, node


def test_options_count(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x + 1)
    for _ in range(3):
        jitted(1.0)
    with kiln.enable_x64(True):
        assert jitted(1.0).dtype == np.float64
    with kiln.disable_jit():
        assert jitted(1.0) == 2.0
    assert len(slow) == 4
    jitted(1.0)
    assert len(slow) == 4


def test_a_context_in_a_loop(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x * 2)
    for _ in range(6):
        with kiln.enable_x64(True):
            assert jitted(1.5).dtype == np.float64
        assert jitted(1.5).dtype == np.float32
    assert len(slow) == 4


def test_the_definition_can_make_all_calls(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x + 1)
    with override(python_call=True):
        for _ in range(5):
            assert float(jitted(1.0)) == 2.0
    assert len(slow) == 5


def test_transformations_see_the_call(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x * x)
    for _ in range(3):
        jitted(3.0)
    assert float(kiln.grad(jitted)(3.0)) == 6.0
    assert kiln.vmap(jitted)(jnp.arange(3.0)).tolist() == [0, 1, 4]
    assert "pjit" in str(kiln.make_jaxpr(jitted)(1.0)) or "jit" in str(kiln.make_jaxpr(jitted)(1.0))
    assert float(kiln.jit(lambda x: jitted(x) + 1)(3.0)) == 10.0


def test_a_tracer_in_a_call_without_a_trace(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x + 1)
    leaked: list[Any] = []
    kiln.jit(lambda x: leaked.append(x) or x)(1.0)
    for _ in range(3):
        jitted(1.0)
    with pytest.raises(kiln.errors.UnexpectedTracerError):
        jitted(leaked[0])


def test_closed_over_arrays_are_given_again() -> None:
    def make(w: Any) -> Any:
        return kiln.jit(lambda x: x + w)

    for value in (1.0, 2.0, 3.0):
        jitted = make(jnp.full(3, value))
        assert [jitted(1.0).tolist() for _ in range(4)] == [[1 + value] * 3] * 4


def test_deleted_arrays_are_refused() -> None:
    jitted = kiln.jit(lambda x: x + 1)
    x = jnp.ones(3)
    for _ in range(3):
        jitted(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jitted(x)


def test_donated_arrays_are_deleted_at_every_call() -> None:
    jitted = kiln.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(4):
        x = jitted(jnp.ones(3))
        y = jitted(x)
        assert x.is_deleted() and not y.is_deleted()


def test_donating_calls_are_the_runtimes(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x, y = jnp.ones(3), jnp.ones(3)
    for n in range(5):
        before = x
        x, _ = jitted(x, y)
        assert before.is_deleted()
        assert not y.is_deleted()
        assert x.tolist() == [n + 2.0] * 3
    assert len(slow) == 2
    with pytest.raises(RuntimeError, match="used twice in the same call"):
        jitted(x, x)
    with pytest.raises(RuntimeError, match="deleted"):
        jitted(before, y)
    assert x.tolist() == [6.0] * 3
    # Nothing to give away: a NumPy array stays the caller's.
    mine = np.ones(3, np.float32)
    for _ in range(4):
        assert jitted(mine, y)[0].tolist() == [2, 2, 2]
    assert mine.tolist() == [1, 1, 1]


def test_donated_memory_is_used(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x + 1, donate_argnums=0)
    x = jitted(jnp.ones(1000))
    places = set()
    for _ in range(5):
        places.add(x.unsafe_buffer_pointer())
        x = jitted(x)
    assert len(places) == 1
    assert len(slow) == 2


def placed(x: Any, index: int = 0) -> Any:
    return kiln.device_put(x, kiln.devices()[index])


def test_calls_with_placed_arrays_are_the_runtimes(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x, y: x + y)
    x, y = placed(jnp.ones(3)), jnp.ones(3)
    for _ in range(4):
        out = jitted(x, y)
        assert out.committed and out.sharding == x.sharding
        assert out.tolist() == [2, 2, 2]
    assert len(slow) == 2
    for _ in range(4):
        out = jitted(y, y)
        assert not out.committed
    assert len(slow) == 3
    for _ in range(4):
        assert jitted(x, 1.0).committed
        assert jitted(x, np.ones(3, np.float32)).committed


def test_a_wish_for_a_place_is_the_runtimes(slow: list[Any]) -> None:
    mesh = kiln.make_mesh((1,), ("d",))
    here = kiln.sharding.NamedSharding(mesh, kiln.sharding.PartitionSpec("d"))
    jitted = kiln.jit(lambda x: x + 1, in_shardings=here, out_shardings=here, donate_argnums=0)
    x = jnp.ones(4)
    for n in range(6):
        before = x
        x = jitted(x)
        assert before.is_deleted()
        assert x.sharding == here and x.tolist() == [n + 2.0] * 4
    # Once without a place, once with one.
    assert len(slow) <= 4


def test_places_on_several_devices(slow: list[Any]) -> None:
    devices = kiln.devices()[:4]
    mesh = kiln.make_mesh((4,), ("d",), devices=devices)
    cut, whole = [
        kiln.sharding.NamedSharding(mesh, kiln.sharding.PartitionSpec(*axes))
        for axes in (("d",), ())
    ]
    jitted = kiln.jit(lambda x, y: x * 2 + y)
    x = jnp.arange(8.0)

    def check(x: Any, y: Any, sharding: Any) -> None:
        out = jitted(x, y)
        assert out.sharding.is_equivalent_to(sharding, 1)
        assert out.tolist() == (np.asarray(x) * 2 + np.asarray(y)).tolist()

    for _ in range(3):
        for index in range(4):
            there = placed(x, index)
            check(there, 1.0, there.sharding)
    # The first call traced; each place was new once after that.
    assert len(slow) == 5
    del slow[:]
    for _ in range(4):
        check(kiln.device_put(x, cut), kiln.device_put(x, whole), cut)
        check(kiln.device_put(x, whole), kiln.device_put(x, whole), whole)
    assert len(slow) == 3
    with pytest.raises(ValueError, match="incompatible devices"):
        jitted(placed(x, 0), placed(x, 1))
    donating = kiln.jit(lambda x: x + 1, donate_argnums=0)
    y = kiln.device_put(x, cut)
    for n in range(5):
        before, y = y, donating(y)
        assert before.is_deleted()
        assert y.tolist() == [i + n + 1.0 for i in range(8)]


def test_scalars_are_not_given_away() -> None:
    jitted = kiln.jit(lambda x: x + 1, donate_argnums=0)
    plain = kiln.jit(lambda x: x + 1)
    for _ in range(4):
        assert float(plain(3.0)) == float(jitted(3.0)) == 4.0


def test_scalars_keep_their_bits() -> None:
    jitted = kiln.jit(lambda x: 1.0 / x)
    for _ in range(3):
        assert float(jitted(0.0)) == np.inf
        assert float(jitted(-0.0)) == -np.inf
    same = kiln.jit(lambda x: x)
    for value in [1, 0, -1, 2**31 - 1, -(2**31)] * 3:
        assert int(same(value)) == value
    for flag in [True, False] * 4:
        assert bool(same(flag)) is flag
    with kiln.enable_x64(True):
        for wide in [1e-300, 2**40] * 3:
            assert same(wide).tolist() == wide


def test_methods_and_attributes() -> None:
    class Model:
        def __init__(self, k: float) -> None:
            self.k = k

        @functools.partial(kiln.jit, static_argnums=0)
        def scaled(self, x: Any) -> Any:
            return x * self.k

    a, b = Model(2.0), Model(3.0)
    assert [float(m.scaled(1.0)) for _ in range(3) for m in (a, b)] == [2.0, 3.0] * 3


def test_a_container_changed_by_a_comparison_is_no_danger() -> None:
    class Odd(dict[str, Any]):
        pass

    jitted = kiln.jit(lambda d: d["a"])
    for _ in range(3):
        jitted({"a": jnp.ones(2)})
    assert isinstance(Odd(a=1.0), dict)
    with pytest.raises(TypeError):
        jitted(Odd(a=object()))


def test_threads_share_a_function() -> None:
    jitted = kiln.jit(lambda x: x * 2)
    wrong: list[Any] = []

    def work(n: int) -> None:
        for i in range(200):
            value = float(i % 7 + n)
            many = jitted(jnp.full(n + 1, value))
            if float(jitted(value)) != 2 * value or many.shape != (n + 1,):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def _growth(call: Callable[[], Any], times: int) -> int:
    """Return the least growth of the blocks in use over five rounds, of `times` calls together.

    A leak shows in every round. What a computation of another thread still holds at the end of one,
    or a cache that fills, does not.
    """
    least = sys.maxsize
    for _ in range(10):
        call()
    before = _blocks()
    for _ in range(5):
        for _ in range(times // 5):
            call()
        after = _blocks()
        least = min(least, after - before)
        before = after
    return least


@pytest.mark.skipif(sys.getallocatedblocks() == 0, reason="Python does not count its blocks")
def test_growth_is_seen() -> None:
    kept: list[Any] = []
    call = functools.partial(next, map(kept.append, iter(object, None)))
    # Something else may end in one of the rounds.
    assert 150 <= _growth(call, 1000) <= 200


@pytest.mark.parametrize("times", [2000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.parametrize(("args", "kwargs"), VALUES)
def test_no_reference_is_lost(args: Any, kwargs: Any, times: int) -> None:
    jitted = kiln.jit(f)
    assert _growth(lambda: jitted(*args, **kwargs), times) <= 0


def test_no_reference_is_lost_where_calls_fail() -> None:
    jitted = kiln.jit(lambda x: x + 1)
    jitted(1.0), jitted(1.0)

    def call() -> None:
        for bad in (object(), {"a": object()}, [1.0, "x"]):
            with pytest.raises(TypeError):
                jitted(bad)

    assert _growth(call, 100) <= 0


ALONE = """
import gc, sys
import numpy as np
import kiln, kiln.numpy as jnp
for args in [(1.5, 2), (jnp.ones(3),), (np.ones(3, np.float32),)]:
    jitted = kiln.jit(lambda *args: args[0] + args[-1])
    for _ in range(100):
        jitted(*args).block_until_ready()
    gc.collect()
    gc.disable()
    before = sys.getallocatedblocks()
    for _ in range(3000):
        jitted(*args)
    jitted(*args).block_until_ready()
    print(sys.getallocatedblocks() - before)
    gc.enable()
"""


def test_calls_leave_nothing_to_the_garbage_collector() -> None:
    # jax in the same process would have its own wishes of the engine.
    done = subprocess.run(
        [sys.executable, "-c", ALONE], check=True, capture_output=True, text=True, timeout=120
    )
    assert max(map(int, done.stdout.split())) < 300, done.stdout


def test_a_forgotten_function_goes_with_what_it_remembers() -> None:
    weights = jnp.ones(3)
    jitted = kiln.jit(lambda x: x + weights)
    for _ in range(3):
        jitted(1.0)
    gone = weakref.ref(jitted)
    del jitted
    gc.collect()
    assert gone() is None


def test_clearing_forgets_the_calls(slow: list[Any]) -> None:
    jitted = kiln.jit(lambda x: x + 1)
    for _ in range(3):
        jitted(1.0)
    jitted.clear_cache()
    jitted(1.0)
    assert len(slow) == 3
