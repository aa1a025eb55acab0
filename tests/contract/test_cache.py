"""Section 10 of the contract: fresh functions, exchanged parts, spellings, what is kept alive."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import logging
import math
import random
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from tests.contract.marks import contract

G: Any = 1.0


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    kiln.clear_caches()
    yield
    globals()["G"] = 1.0


class Count(logging.Handler):
    """Counts traces and compilations."""

    def __init__(self) -> None:
        super().__init__()
        self.traces = self.compilations = 0

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self.traces += message.startswith("Finished tracing")
        self.compilations += message.startswith("Compiling") and "for reference" not in message


@pytest.fixture
def count() -> Iterator[Count]:
    counter = Count()
    logger = logging.getLogger("kiln")
    logger.addHandler(counter)
    before, logger.propagate = logger.propagate, False
    with kiln.log_compiles():
        yield counter
    logger.propagate = before
    logger.removeHandler(counter)


def body(x: Any) -> Any:
    return x + 1


def uses_global(x: Any) -> Any:
    return x * G


def checked(f: Callable[..., Any], *args: Any) -> Any:
    """Return `jit(f)(*args)`, having compared it with `f(*args)`, bit for bit and type for type."""
    found, expected = kiln.jit(f)(*args), f(*args)
    pairs = zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True)
    for a, b in pairs:
        b = jnp.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (a, b)
    return found


# Fresh functions of equal content.


@contract("10.6")
def test_a_thousand_fresh_lambdas_trace_and_compile_once(count: Count) -> None:
    x = jnp.ones(3)
    for _ in range(1000):
        kiln.jit(lambda v: body(v) * 2)(x)
    assert (count.traces, count.compilations) == (1, 1)


class Affine(NamedTuple):
    """An immutable model."""

    a: float
    b: float

    def apply(self, x: Any) -> Any:
        return self.a * x + self.b


@dataclasses.dataclass(frozen=True)
class Scaled:
    """Another one."""

    rate: float

    def __call__(self, x: Any) -> Any:
        return self.rate * x

    def apply(self, x: Any) -> Any:
        return self(x)


def _local(rate: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        return rate * x

    return f


def _with_default(rate: Any) -> Callable[..., Any]:
    def f(x: Any, r: Any = rate, *, s: Any = 2.0) -> Any:
        return r * x * s

    return f


def _in_two_levels(rate: Any) -> Callable[..., Any]:
    inner = _local(rate)
    return lambda x: inner(x) + body(x)


FRESH = {
    "lambda": lambda: lambda x: body(x),
    "partial": lambda: functools.partial(body),
    "partial with a number": lambda: functools.partial(jnp.add, 2.0),
    "local function": lambda: _local(3.0),
    "default": lambda: _with_default(3.0),
    "levels": lambda: _in_two_levels(3.0),
    "bound method of a named tuple": lambda: Affine(1.0, 2.0).apply,
    "bound method of a frozen dataclass": lambda: Scaled(2.0).apply,
    "frozen callable": lambda: Scaled(2.0),
    "jitted inside": lambda: (lambda f: lambda x: f(x) + 1)(kiln.jit(_local(2.0))),
    "gradient": lambda: kiln.grad(_local(2.0)),
    "mapped": lambda: lambda x: kiln.vmap(lambda y: y * 2)(x[None])[0],
    "loop inside": lambda: lambda x: kiln.lax.fori_loop(0, 3, lambda i, v: v * 2, x),
    "kiln's rules": lambda: lambda x: kiln.nn.relu(x),
    "comprehension": lambda: lambda x: sum([x * i for i in range(3)]),
}


@contract("10.6")
@pytest.mark.parametrize("name", FRESH)
def test_fresh_functions_of_equal_content_hit(name: str, count: Count) -> None:
    make = FRESH[name]
    first = kiln.jit(make())(2.0)
    traces, compilations = count.traces, count.compilations
    for _ in range(3):
        assert kiln.jit(make())(2.0) == first
    assert (count.traces, count.compilations) == (traces, compilations)


@contract("10.6")
def test_an_option_switches_contents_off(count: Count) -> None:
    def run() -> None:
        kiln.jit(lambda v: body(v) * 2)(1.0)

    with override(content=False):
        for _ in range(3):
            run()
        assert count.traces == 3
        run()
    for _ in range(3):
        run()
    assert count.traces == 5


@contract("10.6")
def test_arrays_closed_over_are_bound_again(count: Count) -> None:
    for n in range(5):
        w = jnp.full(3, float(n))
        out = kiln.jit(lambda x: x * w + G)(jnp.ones(3))  # noqa: B023
        np.testing.assert_array_equal(out, np.full(3, n + 1.0))
        np.testing.assert_array_equal(
            kiln.jit(functools.partial(jnp.multiply, w))(2.0), np.full(3, 2.0 * n)
        )
    assert (count.traces, count.compilations) == (2, 2)


@contract("10.6")
def test_which_array_is_which_counts() -> None:
    def make(a: Any, b: Any) -> Any:
        return lambda x: x + a - b

    one, two, three = jnp.asarray([1.0]), jnp.asarray([2.0]), jnp.asarray([3.0])
    for a, b in itertools.product((one, two, three), repeat=2):
        checked(make(a, b), jnp.ones(1))


@contract("10.6", "1.6")
def test_arrays_closed_over_are_not_kept() -> None:
    def run(n: int) -> Any:
        w = jnp.full(3, float(n))
        kiln.jit(lambda x: x * w)(1.0)
        return weakref.ref(w)

    refs = [run(n) for n in range(3)]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


# Stale values.


@contract("10.6")
@pytest.mark.parametrize(
    "values",
    [
        (0.0, -0.0, 0, False),
        (1, 1.0, True, 1j, np.float32(1), np.int8(1), np.float64(1)),
        (math.nan, 1.0, math.inf, -math.inf),
        ((1, 2), (1.0, 2), (2, 1), ((1, 2),)),
        ("float32", "int32", np.dtype("float32"), jnp.int32),
        (None, 0, ()),
    ],
)
def test_closures_defaults_and_arguments_of_partials(values: tuple[Any, ...]) -> None:
    def out(x: Any, v: Any) -> Any:
        if isinstance(v, tuple):
            return [x + i for i in kiln.tree.leaves(v)], len(v)
        if v is None or isinstance(v, (str, np.dtype, type)):
            return x.astype(v) if v is not None else -x
        return x * v, jnp.asarray(v)

    x = jnp.float32(2)
    for v in values * 2:
        checked(lambda x: out(x, v), x)  # noqa: B023
        checked(lambda x, w=v: out(x, w), x)
        checked(lambda x, *, w=v: out(x, w), x)
        checked(functools.partial(lambda w, x: out(x, w), v), x)
        checked(functools.partial(lambda x, w: out(x, w), w=v), x)
        checked(lambda x: (lambda: out(x, v))(), x)  # noqa: B023


@contract("10.6")
def test_globals_of_fresh_functions() -> None:
    for value in (1.0, 2.0, 1, True, -0.0, 0.0, np.float32(3), jnp.float32(4), jnp.float32(5), 1.0):
        globals()["G"] = value
        checked(lambda x: x * G, jnp.float32(2))
        checked(lambda x: uses_global(x), jnp.float32(2))
        checked(functools.partial(lambda f, x: f(x), uses_global), jnp.float32(2))
        checked(lambda x: kiln.vmap(uses_global)(x[None]), jnp.float32(2))


def calling(f: Any) -> Callable[..., Any]:
    return lambda x: f(x)


@contract("10.6", "7.5")
def test_a_function_keeps_its_trace_and_a_fresh_one_does_not_get_it() -> None:
    kept = kiln.jit(uses_global)
    assert kept(1.0) == 1.0
    globals()["G"] = 2.0
    assert kept(1.0) == 1.0
    assert kiln.jit(uses_global)(1.0) == 1.0
    # One place in the source: nothing but what is called tells these functions apart.
    for _ in range(2):
        assert kiln.jit(calling(uses_global))(1.0) == 2.0
        # The function called keeps its trace; no fresh function of equal content may get that.
        assert kiln.jit(calling(kept))(1.0) == 1.0
        assert kiln.jit(calling(kiln.jit(uses_global)))(1.0) == 1.0
        assert kiln.jit(calling(kiln.jit(types_function(uses_global))))(1.0) == 2.0
        assert kiln.jit(calling(calling(kept)))(1.0) == 1.0
        assert kiln.jit(calling(calling(kiln.jit(types_function(uses_global)))))(1.0) == 2.0


@contract("10.6", "7.5")
@pytest.mark.parametrize("kept_first", [False, True])
def test_a_program_recorded_with_an_old_trace_is_for_one_function(kept_first: bool) -> None:
    def over(w: Any) -> Any:
        return lambda x: x * w + G

    def stale() -> Any:
        globals()["G"] = 1.0
        jitted = kiln.jit(over(2.0))
        assert jitted(1.0) == 3.0
        globals()["G"] = 5.0
        return kiln.jit(calling(jitted)), 3.0

    def fresh() -> Any:
        globals()["G"] = 5.0
        return kiln.jit(calling(kiln.jit(over(2.0)))), 7.0

    for make in ((stale, fresh) if kept_first else (fresh, stale)) * 2:
        f, expected = make()
        assert f(1.0) == expected


@contract("10.6", "7.5")
def test_staleness_reaches_through_levels_transformations_and_static_arguments() -> None:
    def over() -> Any:
        return lambda x, n: x * n * G

    def through(f: Any) -> list[Any]:
        middle = kiln.jit(calling(lambda x: f(x, 2)))
        return [
            calling(middle),
            calling(kiln.grad(lambda x: f(x, 2))),
            calling(lambda x: kiln.vmap(lambda y: f(y, 2))(x[None])[0]),
            lambda x: kiln.lax.fori_loop(0, 1, lambda i, c: f(c, 2), x),
        ]

    kept = kiln.jit(over(), static_argnums=1)
    x = jnp.float32(1)
    assert kept(x, 2) == 2.0
    globals()["G"] = 5.0
    for _ in range(2):
        assert [float(kiln.jit(f)(x)) for f in through(kept)] == [2.0] * 4
        fresh = kiln.jit(over(), static_argnums=1)
        assert [float(kiln.jit(f)(x)) for f in through(fresh)] == [10.0] * 4


@contract("10.6")
def test_functions_that_call_a_jitted_function_share_while_it_is_up_to_date(count: Count) -> None:
    kept = kiln.jit(uses_global)
    kept(1.0)
    kiln.jit(calling(kept))(1.0)
    traces = count.traces
    for _ in range(3):
        assert kiln.jit(calling(kept))(1.0) == 1.0
    assert count.traces == traces


def types_function(f: Any) -> Any:
    return type(f)(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


@contract("10.6")
def test_a_jitted_function_that_is_out_of_date_does_not_spread() -> None:
    def make(w: Any) -> Any:
        return lambda x: x * w

    inner = make(jnp.ones(2))
    jitted = kiln.jit(inner)
    jitted(1.0)
    inner.__closure__[0].cell_contents = jnp.zeros(2)
    for _ in range(2):
        assert float(kiln.jit(calling(jitted))(1.0)[0]) == 1.0  # Contract 7.5.
        assert float(kiln.jit(calling(kiln.jit(make(jnp.zeros(2)))))(1.0)[0]) == 0.0
        assert float(kiln.jit(calling(kiln.jit(make(jnp.ones(2)))))(1.0)[0]) == 1.0


@contract("10.6")
@pytest.mark.parametrize(
    "reader",
    [
        *(lambda w, x: x + float(w), lambda w, x: x if w else -x, lambda w, x: x + w.item()),
        *(lambda w, x: x + int(w), lambda w, x: x + np.asarray(w), lambda w, x: x + w.tolist()),
        *(lambda w, x: x + complex(w).real, lambda w, x: x + len(f"{w}"), lambda w, x: x[: int(w)]),
        *(lambda w, x: jnp.reshape(x, (-1, max(int(w), 1))), lambda w, x: x + np.float32(w)),
        *(lambda w, x: x + w.tobytes()[-1], lambda w, x: x + sum(range(int(w)))),
        *(lambda w, x: kiln.jit(lambda v: v + float(w))(x), lambda w, x: x + math.sin(w)),
        *(lambda w, x: kiln.vmap(lambda v: v * float(w))(x), lambda w, x: x * [1, 2, 3, 4][w]),
        *(lambda w, x: kiln.lax.fori_loop(0, w, lambda i, v: v + 1, x), lambda w, x: w or x),
        *(lambda w, x: kiln.lax.fori_loop(0, 3, lambda i, v: v + int(w), x),),
    ],
)
def test_programs_that_depend_on_the_values_of_arrays(reader: Any) -> None:
    x = jnp.arange(6.0)
    for value in (1, 2, 0, 1, 3):
        w = jnp.asarray(value)
        f = lambda x: reader(w, x)  # noqa: B023
        try:
            expected = reader(w, x)
        except ZeroDivisionError:
            continue
        np.testing.assert_array_equal(kiln.jit(f)(x), expected)
        np.testing.assert_array_equal(kiln.jit(functools.partial(reader, w))(x), expected)


@contract("10.6")
def test_mutable_things_in_reach() -> None:
    items, table, array = [1.0], {"a": 1.0}, np.ones(1, "f4")

    class Model:
        rate = 1.0

        def apply(self, x: Any) -> Any:
            return x * self.rate

    model = Model()
    for n in (1.0, 2.0, 3.0):
        items[0] = table["a"] = array[0] = model.rate = n
        x = jnp.float32(2)
        checked(lambda x: x * items[0], x)
        checked(lambda x: x * table["a"], x)
        checked(lambda x: x * array, x)
        checked(lambda x: model.apply(x), x)
        checked(model.apply, x)
        checked(functools.partial(lambda m, x: m.apply(x), model), x)
        checked(lambda x, t=(items,): x * t[0][0], x)
        Model.rate = n + 1
        checked(lambda x: Model().apply(x), x)


@contract("10.6")
def test_methods_exchanged_on_a_class() -> None:
    x = jnp.float32(2)
    original = Scaled.__call__
    try:
        for n in (1.0, 2.0, 3.0):
            Scaled.__call__ = lambda self, x, n=n: x * self.rate * n
            checked(Scaled(2.0), x)
            checked(Scaled(2.0).apply, x)
            checked(lambda x: Scaled(2.0).apply(x), x)
    finally:
        Scaled.__call__ = original


@contract("10.6")
def test_structures_with_metadata_are_traced_again() -> None:
    class Marked:
        def __init__(self, x: Any, note: Any) -> None:
            self.x, self.note = x, note

        def out(self) -> Any:
            return self.x * self.note

    kiln.tree_util.register_pytree_node(
        Marked, lambda m: ((m.x,), m.note), lambda note, xs: Marked(xs[0], note)
    )
    for note in (1, 1.0, True, 2):
        assert checked(lambda m: m.out(), Marked(jnp.int32(3), note)) == 3 * note
        Marked.out = lambda self, n=note: self.x * self.note * n
    for key in (1, 1.0, True):
        checked(lambda d: [x * k for k, x in d.items()], {key: jnp.int32(3)})


@contract("10.6")
def test_random_numbers_and_clocks_are_read_each_time() -> None:
    seen = {
        "np.random": lambda: kiln.jit(lambda x: x + np.random.rand())(0.0),
        "random": lambda: kiln.jit(lambda x: x + random.random())(0.0),
        "time": lambda: kiln.jit(lambda x: x + time.perf_counter() % 1)(0.0),
        "generator": lambda: kiln.jit(functools.partial(lambda g, x: x + next(g), numbers))(0.0),
        "counter": lambda: kiln.jit(lambda x: x + next(numbers))(0.0),
    }
    numbers = iter(range(100))
    for name, draw in seen.items():
        assert len({float(draw()) for _ in range(5)}) == 5, name


@contract("10.6")
def test_effects_while_tracing_happen_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    calls = []
    count = 0

    def bump(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    for _ in range(3):
        kiln.jit(lambda x: calls.append(1) or x)(1.0)
        kiln.jit(lambda x: print("traced") or x)(1.0)
        kiln.jit(lambda x: bump(x))(1.0)
    assert len(calls) == 3
    assert capsys.readouterr().out == "traced\n" * 3
    assert count == 3


@contract("10.6", "1.6")
def test_ids_that_are_used_again() -> None:
    # What is found by an identity is the trace: compiling 300 programs would only take time.
    with override(engine="reference"):
        for n in range(300):
            f = eval(f"lambda x: x + {n}")
            assert kiln.jit(f)(0) == n
            g = functools.partial(lambda x, k: x + k, k=n % 7)
            assert kiln.jit(g)(0) == n % 7
            del f, g


@contract("10.6")
def test_options_and_static_arguments_do_not_mix() -> None:
    x = np.arange(2.0)
    for _ in range(2):
        assert kiln.jit(lambda x: x * 2)(x).dtype == np.float32
        with kiln.enable_x64(True):
            assert kiln.jit(lambda x: x * 2)(x).dtype == np.float64
    for n in (1, 1.0, True, 2, 0.0, -0.0):
        out = kiln.jit(lambda x, n: x * 0 + jnp.asarray(n), static_argnums=1)(True, n)
        assert (out.dtype, float(out)) == ((True * 0 + jnp.asarray(n)).dtype, float(n))
        plain = kiln.jit(lambda x, n: jnp.asarray(n), static_argnums=1)(True, n)
        assert plain.dtype == jnp.asarray(n).dtype
        assert math.copysign(1, plain) == math.copysign(1, n)

    class Loose:
        def __init__(self, n: Any) -> None:
            self.n = n

        def __hash__(self) -> int:
            return 0

        def __eq__(self, other: object) -> bool:
            return True

    for n in (1, 2, 3):
        assert kiln.jit(lambda x, s: x * s.n, static_argnums=1)(1, Loose(n)) == n


@contract("10.6")
def test_code_and_defaults_exchanged_on_one_function() -> None:
    def f(x: Any, k: Any = 1.0, *, m: Any = 1.0) -> Any:
        return x * (k[0] if isinstance(k, list) else k) * m

    wrappers = []
    for k in (1.0, 2.0, 2, [3.0], [4.0], jnp.float32(5), jnp.float32(6)):
        f.__defaults__ = (k,)
        assert kiln.jit(f)(1.0) == f(1.0)
        f.__kwdefaults__ = {"m": len(wrappers)}
        wrapper = kiln.jit(f)
        wrappers.append((wrapper, wrapper(1.0)))
        assert wrapper(1.0) == f(1.0)
    f.__code__ = (lambda x, k, *, m: x - k).__code__
    assert kiln.jit(f)(1.0) == f(1.0)
    # A wrapper keeps what it has traced.
    assert all(wrapper(1.0) == out for wrapper, out in wrappers)


@contract("10.2")
def test_a_second_wrapper_hits(count: Count) -> None:
    def f(x: Any, k: Any = 2, options: Any = ({"a": [1]},)) -> Any:
        return x + k

    kiln.jit(f)(1.0)
    kiln.jit(f)(1.0)
    assert count.traces == 1


@contract("10.4", "10.6")
def test_clear_caches_forgets_contents(count: Count) -> None:
    kiln.jit(lambda x: x + 1)(1.0)
    kiln.clear_caches()
    kiln.jit(lambda x: x + 1)(1.0)
    assert count.traces == 2


@contract("10.4", "10.6")
def test_a_failed_trace_leaves_nothing() -> None:
    def make(w: Any) -> Any:
        return lambda x: x + (1 if float(x) > 0 else w)

    for _ in range(2):
        with pytest.raises(kiln.errors.ConcretizationTypeError):
            kiln.jit(make(1.0))(1.0)


@contract("10.6", "1.6")
def test_a_fresh_function_and_what_it_reaches_can_be_collected() -> None:
    def make() -> list[Any]:
        @dataclasses.dataclass(frozen=True)
        class Local:
            rate: float

            def apply(self, x: Any) -> Any:
                return x * self.rate

        instance, w = Local(2.0), jnp.ones(3)
        inner = lambda x: instance.apply(x) * w
        outer = lambda x: inner(x)
        kiln.jit(outer)(1.0)
        kiln.jit(outer).lower(1.0).compile()(1.0)
        return [weakref.ref(v) for v in (Local, instance, w, inner, outer)]

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


# Spellings.


@contract("10.5")
def test_positional_and_keyword_spellings_share_a_trace(count: Count) -> None:
    @kiln.jit
    def f(x: Any, y: Any, *, z: Any = 3.0) -> Any:
        return x + 10 * y + 100 * z

    spelled = [f(1.0, 2.0), f(1.0, y=2.0), f(x=1.0, y=2.0), f(y=2.0, x=1.0)]
    assert [float(v) for v in spelled] == [321.0] * 4
    assert (count.traces, count.compilations) == (1, 1)
    assert float(f(y=2.0, x=1.0, z=4.0)) == float(f(1.0, 2.0, z=4.0)) == 421.0
    assert count.traces == 2
    assert f.lower(y=2.0, x=1.0).compile()(y=2.0, x=1.0) == 321.0
    assert f.eval_shape(x=1.0, y=2.0).shape == ()
    assert count.traces == 2


@contract("10.5")
def test_spellings_with_gaps_statics_and_stars() -> None:
    def f(x: Any, y: Any = 2, n: Any = 3, *rest: Any, k: Any = 5, **named: Any) -> Any:
        return x, y * 10, n * 100, sum(rest), k, sorted(named), type(n) is int

    for static in ((), "n", ("n", "k")):
        jitted = kiln.jit(lambda *a, **b: f(*a, **b)[:5], static_argnames=())
        spelled = lambda x, y=2, n=3, *r, k=5: f(x, y, n, *r, k=k)[:5]
        named = kiln.jit(spelled, static_argnames=static)
        for args, kwargs in [
            ((1,), {"n": 4}),
            ((1,), {"n": 4, "y": 7}),
            ((), {"n": 4, "y": 7, "x": 1}),
            ((1, 7), {"n": 4, "k": 8}),
            ((1, 7, 4, 9), {"k": 8}),
        ]:
            expected = f(*args, **kwargs)[:5]
            assert tuple(map(int, jitted(*args, **kwargs))) == expected
            assert tuple(map(int, named(*args, **kwargs))) == expected
    with pytest.raises(TypeError, match="multiple values"):
        kiln.jit(body)(1, x=2)
    with pytest.raises(TypeError, match="unexpected keyword"):
        kiln.jit(body)(1, q=2)
    both = kiln.jit(lambda x, n: (x, jnp.zeros(3)[:n].sum()), static_argnums=0, static_argnames="n")
    assert both(1, n=2)[0] == 1


@contract("10.5")
def test_weak_and_strong_calls_share_an_executable(count: Count) -> None:
    f = kiln.jit(lambda x: x + 1)
    weak, strong = f(2.0), f(np.float32(2))
    assert (weak.weak_type, strong.weak_type) == (True, False)
    assert (f(3.0).weak_type, f(np.float32(3)).weak_type) == (True, False)
    assert (count.traces, count.compilations) == (2, 1)


# Eager loops and branches.


@contract("10.6")
def test_eager_loops_with_fresh_bodies(count: Count) -> None:
    def run(k: Any, w: Any) -> Any:
        lax = kiln.lax
        return (
            lax.scan(lambda c, x: (c * k + x, c + w[0]), 0.0, jnp.arange(3.0)),
            lax.fori_loop(0, 3, lambda i, c: c * k + i + w[0], 1.0),
            lax.while_loop(lambda c: c < 50 * k, lambda c: c * 2 + w[0], 1.0),
            lax.cond(w[0] > 1, lambda c: c * k, lambda c: c - k, 3.0),
            lax.switch(1, [lambda c: c * k, lambda c: c - w[0]], 3.0),
        )

    def plain(k: Any, w: Any) -> Any:
        with kiln.disable_jit():
            return run(k, w)

    for k, w in itertools.product((1.0, 2.0, 3), (1.0, 2.0, 5.0)):
        array = jnp.asarray([w])
        found, expected = run(k, array), plain(k, array)
        for a, b in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    before = count.compilations
    run(2.0, jnp.asarray([7.0]))
    assert count.compilations == before
