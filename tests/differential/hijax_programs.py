"""Programs with primitives that are objects, given a library: jax, or kiln in its place."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, list[Callable[[Any], Any]]] = {}


def hijax(jax: Any) -> Any:
    """Return the library's `experimental.hijax`."""
    return importlib.import_module(f"{jax.__name__}.experimental.hijax")


def power(jax: Any, rules: str) -> Callable[[Any], Any]:
    """Return the third power by a primitive with some rules, which triple its derivative."""

    class Power(hijax(jax).VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self, aval: Any, power: int) -> None:
            self.in_avals, self.out_aval, self.params = (aval,), aval, {"power": power}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return x**self.power

        def slope(self, x: Any) -> Any:
            return 3 * self.power * raised(x, self.power - 1)

        def batch(self, axis: Any, args: Any, dims: Any) -> Any:
            return raised(args[0], self.power), dims[0]

    def fwd(self: Any, nonzero: Any, x: Any) -> Any:
        return self(x), x

    def retval(self: Any, x: Any, ct: Any) -> Any:
        return (ct * self.slope(x),)

    def accumulated(self: Any, x: Any, ct: Any, accumulator: Any) -> None:
        accumulator.accum(ct * self.slope(x))
        accumulator.accum(0 * x)

    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0] * self.slope(*primals)

    def lin(self: Any, nonzero: Any, x: Any) -> Any:
        return self(x), x

    def linearized(self: Any, x: Any, tangent: Any) -> Any:
        return tangent * self.slope(x)

    for name, methods in {
        "retval": {"vjp_fwd": fwd, "vjp_bwd_retval": retval},
        "accumulated": {"vjp_fwd": fwd, "vjp_bwd": accumulated},
        "jvp": {"jvp": jvp, "vjp_fwd": fwd, "vjp_bwd_retval": retval},
        "lin": {"lin": lin, "linearized": linearized},
    }.items():
        for rule, method in methods.items() if name == rules else ():
            setattr(Power, rule, method)

    def raised(x: Any, power: int) -> Any:
        return Power(jax.typeof(x), power)(x)

    return lambda x: raised(x, 3)


def product(jax: Any, seen: list[Any]) -> Callable[..., Any]:
    """Return a product by a primitive with the positions of axes alone as rule for stacks."""

    class Product(hijax(jax).VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self, x: Any, y: Any) -> None:
            self.in_avals, self.out_aval, self.params = (x, {"factor": y}), x, {}
            super().__init__()

        def expand(self, x: Any, y: Any) -> Any:
            return x * y["factor"]

        def vjp_fwd(self, nonzero: Any, x: Any, y: Any) -> Any:
            seen.append(nonzero)
            return self(x, y), (x, y["factor"])

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            x, y = res
            return 2 * ct * y, {"factor": 5 * x * ct}

        def batch_dim_rule(self, axis: Any, dims: Any) -> Any:
            return dims[1]["factor"] if dims[0] is None else dims[0]

    return lambda x, y: Product(jax.typeof(x), jax.typeof(y))(x, {"factor": y})


def tupled(jax: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return functions that make a high value, and flatten it, linearly."""
    high = hijax(jax)

    @dataclasses.dataclass(frozen=True)
    class Tup:
        elements: tuple[Any, ...]

    @dataclasses.dataclass(frozen=True)
    class TupTy(high.HiType):  # type: ignore[misc]
        types: tuple[Any, ...]

        def __hash__(self) -> int:
            return hash(self.types)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, TupTy) and self.types == other.types

        def lo_ty(self) -> list[Any]:
            return list(self.types)

        def lower_val(self, hi_val: Any) -> list[Any]:
            return list(hi_val.elements)

        def raise_val(self, *lo_vals: Any) -> Any:
            return Tup(lo_vals)

        def to_tangent_aval(self) -> Any:
            return TupTy(tuple(ty.to_tangent_aval() for ty in self.types))

    high.register_hitype(Tup, lambda value: TupTy(tuple(map(jax.typeof, value.elements))))

    class Make(high.VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self, *types: Any) -> None:
            self.in_avals, self.out_aval, self.params = types, TupTy(types), {}
            super().__init__()

        def expand(self, *elements: Any) -> Any:
            return Tup(elements)

        def jvp(self, primals: Any, tangents: Any) -> Any:
            return make(*primals), make(*map(high.instantiate_zeros, tangents))

    class Take(high.VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self, ty: Any, place: int) -> None:
            self.in_avals, self.out_aval, self.params = (ty,), ty.types[place], {"place": place}
            super().__init__()

        def expand(self, value: Any) -> Any:
            return value.elements[self.place]

        def jvp(self, primals: Any, tangents: Any) -> Any:
            return take(primals[0], self.place), take(tangents[0], self.place)

    def make(*elements: Any) -> Any:
        return Make(*map(jax.typeof, elements))(*elements)

    def take(value: Any, place: int) -> Any:
        return Take(jax.typeof(value), place)(value)

    return make, take


def x(jax: Any) -> Any:
    """Return [0, 1, 2]."""
    return jax.numpy.arange(3.0)


def rows(jax: Any) -> Any:
    """Return [[0, 1, 2], [3, 4, 5]]."""
    return jax.numpy.arange(6.0).reshape(2, 3)


def _add(group: str, name: str, run: Callable[[Any], Any]) -> None:
    run.__name__ = name
    PROGRAMS.setdefault(group, []).append(run)


IN_REVERSE: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda jax, f: f(2.0),
    "jitted": lambda jax, f: jax.jit(f)(2.0),
    "mapped": lambda jax, f: jax.vmap(f)(x(jax)),
    "mapped_along_the_second": lambda jax, f: jax.vmap(f, in_axes=1, out_axes=1)(rows(jax)),
    "gradient": lambda jax, f: jax.grad(f)(2.0),
    "jitted_gradient": lambda jax, f: jax.jit(jax.grad(f))(2.0),
    "gradients_of_examples": lambda jax, f: jax.vmap(jax.grad(f))(x(jax)),
    "gradient_of_a_map": lambda jax, f: jax.grad(lambda x: jax.vmap(f)(x).sum())(x(jax)),
    "second": lambda jax, f: jax.grad(jax.grad(f))(2.0),
    "in_a_loop": lambda jax, f: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
    )(0.5),
}
FORWARDS: dict[str, Callable[[Any, Any], Any]] = {
    "forward": lambda jax, f: jax.jvp(f, (jax.numpy.float32(2),), (jax.numpy.float32(1),)),
    "forward_of_a_map": lambda jax, f: jax.jvp(jax.vmap(f), (x(jax),), (x(jax),)),
}
LINEAR: dict[str, Callable[[Any, Any], Any]] = {
    "linearized": lambda jax, f: jax.linearize(f, 2.0)[1](1.0),
    "linearized_map": lambda jax, f: jax.linearize(jax.vmap(f), x(jax))[1](x(jax)),
}
for _rules, _uses in {
    "retval": IN_REVERSE,
    "accumulated": IN_REVERSE,
    "jvp": IN_REVERSE | FORWARDS,
    "lin": LINEAR,
}.items():
    for _name, _use in _uses.items():
        _add(_rules, _name, lambda jax, use=_use, rules=_rules: use(jax, power(jax, rules)))


def _maps(jax: Any, **axes: Any) -> Any:
    f = jax.vmap(product(jax, []), **axes)
    return lambda a, b: [f(a, b), jax.grad(lambda a, b: f(a, b).sum(), (0, 1))(a, b)]


for _name, _run in {
    "both": lambda jax: _maps(jax)(x(jax), x(jax) + 1),
    "the_first": lambda jax: _maps(jax, in_axes=(0, None))(rows(jax), x(jax)),
    "the_second": lambda jax: _maps(jax, in_axes=(None, 0), out_axes=1)(x(jax), rows(jax)),
    "twice": lambda jax: jax.vmap(
        jax.vmap(product(jax, []), in_axes=(0, None)), in_axes=(2, None), out_axes=2
    )(jax.numpy.arange(24.0).reshape(2, 3, 4), x(jax)),
    "twice_the_other": lambda jax: jax.vmap(
        jax.vmap(product(jax, []), in_axes=(None, 0)), in_axes=(1, None), out_axes=2
    )(jax.numpy.arange(12.0).reshape(3, 4), rows(jax)),
}.items():
    _add("stacks", _name, _run)


def _nonzero(jax: Any, argnum: int) -> Any:
    seen: list[Any] = []
    found = jax.grad(product(jax, seen), argnum)(2.0, 3.0)
    return [found, *jax.tree.leaves(seen)]


for _name, _run in {
    "of_the_first": lambda jax: _nonzero(jax, 0),
    "of_the_second": lambda jax: _nonzero(jax, 1),
}.items():
    _add("nonzero", _name, _run)


def _tuples(jax: Any) -> Callable[..., Any]:
    make, take = tupled(jax)

    def swapped(a: Any, b: Any) -> Any:
        value = make(a, b)
        return take(value, 1) * 2, take(value, 0)

    return swapped


for _name, _run in {
    "values": lambda jax: _tuples(jax)(x(jax), 2.0),
    "jitted": lambda jax: jax.jit(_tuples(jax))(x(jax), 2.0),
    "moved": lambda jax: jax.jvp(_tuples(jax), (x(jax), 2.0), (x(jax), 3.0)),
}.items():
    _add("tuples", _name, _run)


def _both_backwards(jax: Any) -> Any:
    class Both(hijax(jax).VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self) -> None:
            self.in_avals, self.out_aval, self.params = (), None, {}
            super().__init__()

        def vjp_bwd(self, res: Any, ct: Any) -> None:
            pass

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            return ()

    return Both()


def _without(jax: Any, name: str) -> Any:
    class Without(hijax(jax).VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self) -> None:
            for given in {"in_avals", "out_aval", "params"} - {name}:
                setattr(self, given, {} if given == "params" else ())
            super().__init__()

    return Without()


for _name, _run in {
    "both_backward_rules": _both_backwards,
    **{f"without_{name}": lambda jax, n=name: _without(jax, n) for name in ("in_avals", "params")},
    "without_jvp": lambda jax: jax.jvp(power(jax, "none"), (2.0,), (1.0,)),
    "without_vjp": lambda jax: jax.grad(power(jax, "none"))(2.0),
    "stacks_without_a_rule": lambda jax: jax.vmap(tupled(jax)[0])(x(jax)),
}.items():
    _add("refused", _name, _run)
