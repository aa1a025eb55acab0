"""Lifted transformations are flax's: names, first values, outputs, updates, draws and gradients.

A jitted module is compared with flax's plain one: there, `jit` changes what is drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from tests.differential.linen_runs import Build, Run, Runs, cases, check
from tests.differential.operands import smooth
from tests.differential.oracle import Topic

X = smooth("float32", (3, 4))
STACK = smooth("float32", (5, 3, 4), "stack")
LAST = smooth("float32", (3, 4, 5), "last")
STEPS = smooth("float32", (3, 5, 4), "steps")
Body = Callable[[Any, Any, Any], Any]


def plainly(n: Any) -> Callable[..., Any]:
    """Return `jit` of kiln; of flax, what leaves the target as it is."""
    if n.__name__.startswith("kiln"):
        return n.jit  # type: ignore[no-any-return]
    return lambda target, *args, **options: target


def outer(body: Callable[..., Any]) -> Build:
    """Return a maker of a module whose `__call__(self, *args)` is `body(n, self, *args)`."""

    def build(n: Any) -> Any:
        class Outer(n.Module):  # type: ignore[misc, name-defined]
            @n.compact
            def __call__(self, *args: Any) -> Any:
                return body(n, self, *args)

        return Outer()

    return build


def block(n: Any) -> Any:
    """Return a class with everything in it: parameters, statistics, dropout, sown values."""

    class Block(n.Module):  # type: ignore[misc, name-defined]
        width: int = 4

        @n.compact
        def __call__(self, x: Any) -> Any:
            y = n.Dense(self.width, use_bias=False, name="first")(x)
            y = n.BatchNorm(use_running_average=False)(y)
            y = n.Dropout(0.5, deterministic=False)(n.tanh(y))
            count = self.variable("counts", "calls", lambda: np.zeros((), np.float32))
            count.value = count.value + y.sum()
            return n.Dense(4, use_bias=False)(y) + count.value

    return Block


def two_layers(n: Any) -> Any:
    """Return a class without statistics."""

    class Layers(n.Module):  # type: ignore[misc, name-defined]
        @n.compact
        def __call__(self, x: Any) -> Any:
            y = n.Dropout(0.5, deterministic=False)(n.tanh(n.Dense(3)(x)))
            return n.Dense(4)(y)

    return Layers


def layer(n: Any) -> Any:
    """Return a class for scan: a carry in and out, and a result of each step."""

    class Layer(n.Module):  # type: ignore[misc, name-defined]
        @n.compact
        def __call__(self, carry: Any, x: Any) -> Any:
            y = n.tanh(n.Dense(4)(carry) + (0 if x is None else x))
            y = n.Dropout(0.25, deterministic=False)(y)
            return y, y.sum(-1)

    return Layer


def fun_dense(m: Any, x: Any) -> Any:
    return m(x)


# ---- jit

EACH: dict[str, Any] = {"params": True, "dropout": True}
SAME: dict[str, Any] = {"params": False, "dropout": False}
ALL: dict[str, Any] = {"params": 0, "batch_stats": 0, "counts": 0}


def jits() -> Iterator[tuple[str, Build, tuple[Any, ...]]]:
    yield "class", outer(lambda n, s, x: plainly(n)(block(n))(name="b")(x)), (X,)

    def blocks(n: Any, s: Any, x: Any) -> Any:
        kind = block(n)
        for i in range(3):
            x = plainly(n)(kind)(name=f"b{i}")(x)
        return x

    yield "blocks", outer(blocks), (X,)

    def twice(n: Any, s: Any, x: Any) -> Any:
        b = plainly(n)(block(n))(name="b")
        return b(b(x))

    yield "twice", outer(twice), (X,)
    yield (
        "nested",
        outer(lambda n, s, x: plainly(n)(plainly(n)(block(n)))(name="b")(x)),
        (X,),
    )
    yield (
        "function",
        outer(lambda n, s, x: plainly(n)(lambda m, x: m(x) * 2)(block(n)(name="b"), x)),
        (X,),
    )
    yield (
        "submodules made in a function",
        outer(
            lambda n, s, x: n.Dense(4)(
                plainly(n)(lambda m, x: n.Dense(4)(n.Dense(4)(x)))(s, n.Dense(4)(x))
            )
        ),
        (X,),
    )

    def shared(n: Any, s: Any, x: Any) -> Any:
        class User(n.Module):  # type: ignore[misc, name-defined]
            inner: Any

            @n.compact
            def __call__(self, x: Any) -> Any:
                return n.Dense(4, use_bias=False)(self.inner(x))

        inner = block(n)(name="shared")
        x = plainly(n)(User)(inner, name="one")(x)
        return plainly(n)(User)(inner, name="two")(inner(x))

    yield "shared submodule", outer(shared), (X,)
    yield (
        "module argument",
        outer(
            lambda n, s, x: plainly(n)(lambda m, other, x: m(other(x)))(
                block(n)(name="a"), block(n)(name="b"), x
            )
        ),
        (X,),
    )

    def with_setup(n: Any) -> Any:
        jit = plainly(n)

        class Setup(n.Module):  # type: ignore[misc, name-defined]
            def setup(self) -> None:
                self.blocks = [block(n)(), jit(block(n))()]

            def __call__(self, x: Any) -> Any:
                return self.helper(self.blocks[0](x)) + self.helper(x)

            def helper(self, x: Any) -> Any:
                return self.blocks[1](x)

        Setup.helper = jit(Setup.helper)
        return Setup()

    yield "setup", with_setup, (X,)

    def decorated(n: Any) -> Any:
        class Decorated(n.Module):  # type: ignore[misc, name-defined]
            @plainly(n)
            @n.compact
            def __call__(self, x: Any) -> Any:
                return block(n)()(n.Dense(4, use_bias=False)(x))

        return Decorated()

    yield "decorator", decorated, (X,)
    for name, (change, kind) in NESTINGS.items():
        yield (
            f"jit of {name}",
            outer(lambda n, s, x, c=change, k=kind: plainly(n)(c(n)(k(n)))(name="b")(x)),
            (STACK if name == "vmap" else X,),
        )
        yield (
            f"{name} of jit",
            outer(lambda n, s, x, c=change, k=kind: c(n)(plainly(n)(k(n)))(name="b")(x)),
            (STACK if name == "vmap" else X,),
        )
    yield (
        "jit of scan",
        outer(
            lambda n, s, x: plainly(n)(
                n.scan(layer(n), variable_axes={"params": 0}, split_rngs=EACH, length=3)
            )(name="b")(x, None)
        ),
        (X,),
    )
    yield (
        "scan of jit",
        outer(
            lambda n, s, x: n.scan(
                plainly(n)(layer(n)), variable_axes={"params": 0}, split_rngs=EACH, length=3
            )(name="b")(x, None)
        ),
        (X,),
    )


NESTINGS: dict[str, tuple[Callable[[Any], Callable[[Any], Any]], Build]] = {
    "remat": (lambda n: n.remat, block),
    "vmap": (lambda n: functools.partial(n.vmap, variable_axes=ALL, split_rngs=EACH), block),
    "map_variables": (
        lambda n: functools.partial(
            n.map_variables,
            mapped_collections="params",
            trans_in_fn=lambda tree: scaled(tree, 2.0),
            trans_out_fn=lambda tree: scaled(tree, 0.5),
            init=True,
        ),
        two_layers,
    ),
}


def scaled(tree: Any, by: float) -> Any:
    if hasattr(tree, "items"):
        return {k: scaled(v, by) for k, v in tree.items()}
    return tree * np.float32(by)


# ---- vmap and scan


def vmaps() -> Iterator[tuple[str, Build, tuple[Any, ...]]]:
    def case(**options: Any) -> Build:
        return outer(lambda n, s, *xs: n.vmap(block(n), **options)(name="b")(*xs))

    yield "own parameters", case(variable_axes=ALL, split_rngs=EACH), (STACK,)
    yield "axis 1", case(variable_axes={**ALL, "params": 1}, split_rngs=EACH), (STACK,)
    yield "last axis", case(variable_axes=ALL, split_rngs=EACH, in_axes=-1, out_axes=1), (LAST,)
    yield (
        "same keys",
        case(variable_axes=ALL, split_rngs={"params": False, "dropout": True}),
        (STACK,),
    )
    yield "all", case(variable_axes={True: 0}, split_rngs={True: True}), (STACK,)

    def shared(n: Any, s: Any, x: Any) -> Any:
        return n.vmap(
            n.Dense, variable_axes={"params": None}, split_rngs={"params": False}, out_axes=-1
        )(5, name="b")(x)

    yield "shared parameters", outer(shared), (STACK,)

    def argument(n: Any, s: Any, x: Any) -> Any:
        return n.vmap(
            n.Dense,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=None,
            axis_size=3,
        )(5)(x)

    yield "axis_size", outer(argument), (X,)

    def function(n: Any, s: Any, x: Any) -> Any:
        def twice(m: Any, inner: Any, x: Any, y: Any) -> Any:
            return n.Dense(2)(inner(x)) * y["y"]

        return n.vmap(
            twice,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(None, 0, {"y": None}),
        )(s, n.Dense(3, name="inner"), x, {"y": np.float32(2)})

    yield "function", outer(function), (STACK,)

    def named(n: Any, s: Any, x: Any) -> Any:
        return n.vmap(
            n.BatchNorm,
            variable_axes={"params": None, "batch_stats": None},
            split_rngs={"params": False},
            axis_name="batch",
        )(use_running_average=False, axis_name="batch")(x)

    yield "axis_name", outer(named), (STACK,)

    def methods(n: Any, s: Any, x: Any) -> Any:
        class Two(n.Module):  # type: ignore[misc, name-defined]
            def setup(self) -> None:
                self.inner = n.Dense(3)
                self.other = n.Dense(2)

            def up(self, x: Any) -> Any:
                return self.inner(x)

            def down(self, x: Any) -> Any:
                return self.other(x)

        own = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
        kind = n.vmap(
            Two,
            methods={"up": own, "down": {**own, "out_axes": 1}},
            **own,
        )
        two = kind(name="two")
        return two.up(x), two.down(x)

    yield "methods", outer(methods), (STACK,)
    yield (
        "nested",
        outer(
            lambda n, s, x: n.vmap(
                n.vmap(n.Dense, variable_axes={"params": 0}, split_rngs={"params": True}),
                variable_axes={"params": 1},
                split_rngs={"params": False},
            )(2)(x)
        ),
        (STACK,),
    )


def scans() -> Iterator[tuple[str, Build, tuple[Any, ...]]]:
    def case(**options: Any) -> Build:
        return outer(lambda n, s, x, *xs: n.scan(layer(n), **options)(name="b")(x, *xs))

    own = {"variable_axes": {"params": 0}, "split_rngs": EACH}
    over = np.moveaxis(STACK, 0, 1)
    yield "layers", case(**own), (X, STACK)
    yield "reverse", case(**own, reverse=True, unroll=2), (X, STACK)
    yield "axes", case(**own, in_axes=1, out_axes=1), (X, over)
    yield "axis 1", case(variable_axes={"params": 1}, split_rngs=EACH), (X, STACK)
    yield (
        "shared parameters",
        case(variable_broadcast="params", split_rngs={"params": False, "dropout": True}),
        (X, STACK),
    )
    yield (
        "shared parameters, shared keys",
        case(variable_broadcast="params", split_rngs=SAME),
        (X, STACK),
    )
    yield (
        "without a first look",
        case(**own, check_constancy_invariants=False),
        (X, STACK),
    )

    def carried(n: Any, s: Any, x: Any) -> Any:
        class Counter(n.Module):  # type: ignore[misc, name-defined]
            @n.compact
            def __call__(self, carry: Any, x: Any) -> Any:
                count = self.variable("counts", "n", lambda: np.float32(1))
                count.value = count.value * 2 + x.sum()
                return n.Dense(4)(carry) + count.value, count.value

        if s.is_initializing():
            return Counter(name="b")(x, STACK[0])
        return n.scan(
            Counter,
            variable_carry="counts",
            variable_broadcast="params",
            split_rngs={"params": False},
        )(name="b")(x, STACK)

    yield "carried variables", outer(carried), (X,)

    def broadcasts(n: Any, s: Any, x: Any, y: Any) -> Any:
        def body(m: Any, carry: Any, xs: Any, all_of: Any, t: Any) -> Any:
            return carry + n.Dense(4)(xs) + all_of.sum() * t["t"], (xs * 2, all_of)

        return n.scan(
            body,
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=(0, n.broadcast, n.broadcast),
            out_axes=(-1, n.broadcast),
        )(s, x, y, y, {"t": np.float32(0.5)})

    yield "broadcast arguments and results", outer(broadcasts), (X, STACK)

    def sown(n: Any, s: Any, x: Any) -> Any:
        def body(m: Any, carry: Any, xs: Any) -> Any:
            m.sow("seen", "carry", carry)
            return carry * 2, xs

        return n.scan(body, variable_axes={"seen": 0})(s, x, STACK)

    yield "sown values", outer(sown), (X,)

    def boxed(n: Any, s: Any, x: Any) -> Any:
        class Boxed(n.Module):  # type: ignore[misc, name-defined]
            @n.compact
            def __call__(self, carry: Any, _: Any) -> Any:
                init = n.with_partitioning(n.initializers.ones, ("in", "out"))
                return n.Dense(4, kernel_init=init)(carry), None

        return n.scan(
            Boxed,
            variable_axes={"params": 1},
            split_rngs={"params": True},
            length=2,
            metadata_params={"partition_name": "layers"},
        )()(x, None)

    yield "boxes", outer(boxed), (X,)
    for lengths in [(3,), (2, 2), (2, 1, 2)]:
        yield (
            f"remat_scan {lengths}",
            outer(lambda n, s, x, k=lengths: n.remat_scan(n.Dense, lengths=k)(4)(x)),
            (X,),
        )
    yield (
        "remat_scan with shared parameters",
        outer(
            lambda n, s, x: n.remat_scan(
                n.Dense,
                lengths=(2, 2),
                variable_broadcast="params",
                variable_axes={},
                split_rngs={"params": False},
            )(4)(x)
        ),
        (X,),
    )
    yield (
        "scan of vmap",
        outer(
            lambda n, s, x, y: n.scan(
                n.vmap(layer(n), variable_axes={"params": 0}, split_rngs=EACH),
                variable_axes={"params": 0},
                split_rngs=EACH,
            )(name="b")(x, y)
        ),
        (X, STACK),
    )


# ---- the others


def others() -> Iterator[tuple[str, Build, tuple[Any, ...]]]:
    yield "remat", outer(lambda n, s, x: n.remat(block(n))(name="b")(x)), (X,)

    def static(n: Any, s: Any, x: Any) -> Any:
        class Switched(n.Module):  # type: ignore[misc, name-defined]
            @n.compact
            def __call__(self, x: Any, train: bool, y: Any) -> Any:
                return n.Dense(3)(x) * y if train else x

        return n.remat(Switched, static_argnums=(2,), prevent_cse=False)()(x, True, x.sum())

    yield "remat with a static argument", outer(static), (X,)
    for name, options in {
        "init": {"init": True},
        "init and mutable": {"init": True, "mutable": True},
    }.items():
        yield (
            f"map_variables {name}",
            outer(
                lambda n, s, x, o=options: n.map_variables(
                    two_layers(n),
                    "params",
                    trans_in_fn=lambda tree: scaled(tree, 3.0),
                    trans_out_fn=lambda tree: scaled(tree, 0.5),
                    **o,
                )(name="b")(x)
            ),
            (X,),
        )
    yield (
        "map_variables of mutable ones",
        outer(
            lambda n, s, x: n.map_variables(
                block(n),
                ["batch_stats"],
                trans_in_fn=lambda tree: scaled(tree, 2.0),
                trans_out_fn=lambda tree: scaled(tree, 0.5),
                init=True,
                mutable=True,
            )(name="b")(x)
        ),
        (X,),
    )

    def metadata(n: Any, s: Any, x: Any) -> Any:
        init = n.with_partitioning(n.initializers.ones, ("in", "out"))
        kind = n.add_metadata_axis(
            n.Dense, variable_axes={"params": 0}, metadata_params={"partition_name": "L"}
        )
        return kind(4, kernel_init=init)(x)

    yield "add_metadata_axis", outer(metadata), (X,)
    yield "fold_rngs", outer(lambda n, s, x: n.fold_rngs(block(n))(name="b")(x)), (X,)

    for which in (True, False):
        yield (
            f"cond {which}",
            outer(
                lambda n, s, x, w=which: n.cond(
                    x.sum() > 1e3 if not w else x.sum() < 1e3,
                    lambda m, x: m(x),
                    lambda m, x: m(x) * 2,
                    block(n)(name="b"),
                    x,
                )
            ),
            (X,),
        )
    yield (
        "switch",
        outer(
            lambda n, s, x: n.switch(
                2, [lambda m, x, k=k: m(x) * k for k in range(4)], n.Dense(3, name="b"), x
            )
        ),
        (X,),
    )

    def made(n: Any, s: Any, x: Any) -> Any:
        def with_dense(m: Any, x: Any) -> Any:
            return n.Dense(4)(x)

        return n.Dense(4)(n.cond(x.sum() > 0, with_dense, with_dense, s, x))

    yield "submodules made in branches", outer(made), (X,)

    def loop(split: bool) -> Build:
        def body(n: Any, s: Any, x: Any) -> Any:
            class Step(n.Module):  # type: ignore[misc, name-defined]
                @n.compact
                def __call__(self, x: Any) -> Any:
                    count = self.variable("counts", "n", lambda: np.zeros((), np.int32))
                    count.value = count.value + 1
                    y = n.Dense(4)(x)
                    return n.Dropout(0.5, deterministic=False)(y)

            step = Step(name="b")
            if s.is_initializing():
                return step(x)
            return n.while_loop(
                lambda m, c: m.get_variable("counts", "n") < 5,
                lambda m, c: m(c),
                step,
                x,
                carry_variables="counts",
                split_rngs={"dropout": split, "params": False},
            )

        return outer(body)

    yield "while_loop, keys split", loop(True), (X,)
    yield "while_loop, keys shared", loop(False), (X,)


def derivatives() -> Iterator[tuple[str, Build, tuple[Any, ...]]]:
    def dense(n: Any) -> Any:
        return n.Dense(4, name="b")

    def pulled(n: Any, s: Any, x: Any) -> Any:
        y, back = n.vjp(lambda m, x: m(x), dense(n), x)
        return y, back(y * 2)

    yield "vjp", outer(pulled), (X,)

    def pulled_aux(n: Any, s: Any, x: Any) -> Any:
        y, back, aux = n.vjp(
            lambda m, x, k: (m(x) * k, x.sum()),
            block(n)(name="b"),
            x,
            x[0],
            has_aux=True,
            vjp_variables=["params", "nothing"],
        )
        return y, back(y), aux

    yield "vjp with other results", outer(pulled_aux), (X,)
    yield "grad", outer(lambda n, s, x: n.grad(lambda m, x: m(x).sum(), dense(n), x)), (X,)
    yield (
        "grad with other results",
        outer(
            lambda n, s, x: n.grad(
                lambda m, x, y: ((m(x) * y).sum(), x * 2), block(n)(name="b"), x, x[0], has_aux=True
            )
        ),
        (X,),
    )
    yield (
        "value_and_grad",
        outer(lambda n, s, x: n.value_and_grad(lambda m, x: (m(x) ** 2).sum(), dense(n), x)),
        (X,),
    )
    yield (
        "value_and_grad with other results",
        outer(
            lambda n, s, x: n.value_and_grad(
                lambda m, x: ((m(x) ** 2).sum(), x * 2), dense(n), x, has_aux=True
            )
        ),
        (X,),
    )

    def moved(n: Any, s: Any, x: Any) -> Any:
        m = dense(n)
        first = m(x)
        if s.is_initializing():
            return first
        return n.jvp(
            lambda m, x: m(x),
            m,
            (x,),
            (x * 2,),
            variable_tangents={"params": m.variables["params"]},
        )

    yield "jvp", outer(moved), (X,)
    yield (
        "jvp without variables",
        outer(lambda n, s, x: n.jvp(lambda m, x: m(x), dense(n), (x,), (x,), variable_tangents={})),
        (X,),
    )

    def custom(n: Any, s: Any, x: Any) -> Any:
        def f(m: Any, x: Any) -> Any:
            return m(x)

        def forward(m: Any, x: Any) -> Any:
            return n.vjp(f, m, x)

        def backward(back: Any, cotangent: Any) -> Any:
            own, *others = back(cotangent)
            return scaled(own, -3.0), *[2 * t for t in others]

        return n.custom_vjp(f, forward_fn=forward, backward_fn=backward)(dense(n), x)

    yield "custom_vjp", outer(custom), (X,)

    def constant(n: Any, s: Any, x: Any) -> Any:
        def f(m: Any, x: Any, k: Any) -> Any:
            return m(x) * k

        def forward(m: Any, x: Any, k: Any) -> Any:
            return n.vjp(lambda m, x: f(m, x, k), m, x)

        def backward(k: Any, back: Any, cotangent: Any) -> Any:
            own, x = back(cotangent)
            return scaled(own, k), x

        run = n.custom_vjp(f, forward_fn=forward, backward_fn=backward, nondiff_argnums=(2,))
        return run(dense(n), x, 3.0)

    yield "custom_vjp with a constant", outer(constant), (X,)


def runs(make: Callable[[], Iterator[tuple[str, Build, tuple[Any, ...]]]]) -> Runs:
    """Return the runs of a group of modules on inputs."""

    def made() -> Iterator[tuple[str, Run]]:
        for name, build, inputs in make():
            yield name, Run(build, inputs, {}, slopes="while" not in name)

    return made


GROUPS = {
    "jit": runs(jits),
    "vmap": runs(vmaps),
    "scan": runs(scans),
    "others": runs(others),
    "derivatives": runs(derivatives),
}
TOPIC = Topic("linen_transforms", cases(GROUPS, lambda name: 1e-4))


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_flax(group: str) -> None:
    with override(engine="reference"):
        check(TOPIC, group)


@pytest.mark.parametrize("group", [pytest.param(g, marks=pytest.mark.full) for g in TOPIC.groups])
def test_compiled_as_flax(group: str) -> None:
    check(TOPIC, group)
