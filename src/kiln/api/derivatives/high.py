"""Derivatives with respect to high values: to the arrays that they consist of.

A cotangent of a value has the type `to_ct_aval`, a tangent `to_tangent_aval`. Unless they consist
of one array for each of the value's, NotImplementedError is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.tree import tree_map
from kiln.control.high.high_arguments import lower_values, map_lowered, on_arrays, raise_values
from kiln.control.high.high_values import Lowered
from kiln.control.regions.held_refs import held
from kiln.core.hitypes import check_tangents, lowered, raised
from kiln.core.ref import Ref


def value_and_grad(
    both_of: Callable[..., Any], fun: Callable[..., Any], args: Sequence[Any], kwargs: Any
) -> tuple[Any, Any]:
    """Return the value and the gradient; `both_of` makes the function of arrays for that."""
    value, grads = both_of(on_arrays(fun))(*_checked(args), **lower_values(kwargs))
    return raise_values(value), map_lowered(_cotangent, grads)


def jvp(
    of_arrays: Callable[..., Any],
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool,
) -> Any:
    """Return the value and the directional derivative.

    `of_arrays` is the same transformation of functions of arrays; with `has_aux` the function
    returns a pair, whose second part is returned last. `primals` and `tangents` are sequences of
    pytrees of one structure.
    """
    low = _checked(primals)
    value, moved, *aux = of_arrays(on_arrays(fun), low, _like(low, tangents, _tangent), has_aux)
    return raise_values(value), map_lowered(_as_tangent, moved), *raise_values(aux)


def vjp(
    of_arrays: Callable[..., Any], fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool
) -> Any:
    """Return the value and the pullback from its cotangent to those of the primals.

    `of_arrays` is the same transformation of functions of arrays; with `has_aux` the function
    returns a pair, whose second part is returned last.
    """
    # References are part of the structure: unflattened trees contain them, but no cotangents.
    low = held(_checked(primals))
    value, pull, *aux = of_arrays(on_arrays(fun), *low, has_aux=has_aux)

    return raise_values(value), ValuePullback(pull, low, value), *raise_values(aux)


class ValuePullback:
    """The function that `vjp` returns for values: from a cotangent to those of the primals."""

    def __init__(self, pull: Callable[[Any], Any], primals: Any, value: Any) -> None:
        self._pull, self._primals, self._value = pull, primals, value

    def __call__(self, cotangent: Any) -> Any:
        """Return the cotangents of the primals; None for references."""
        found = self._pull(_like(self._value, cotangent, _cotangent_kind))
        return tree_map(lambda x: None if type(x) is Ref else x, map_lowered(_cotangent, found))

    def __repr__(self) -> str:
        def types(tree: Any) -> Any:
            return map_lowered(lambda x: x.kind, tree)

        return f"<pullback from {types(self._value)} to {types(self._primals)}>"


def linearize(
    of_arrays: Callable[..., Any], fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool
) -> Any:
    """Return the value and the function from tangents of the primals to that of the value.

    `of_arrays` is the same transformation of functions of arrays; with `has_aux` the function
    returns a pair, whose second part is returned last.
    """
    low = _checked(primals)
    value, push, *aux = of_arrays(on_arrays(fun), *low, has_aux=has_aux)

    def pushed(*tangents: Any) -> Any:
        return map_lowered(_as_tangent, push(*_like(low, tangents, _tangent)))

    return raise_values(value), pushed, *raise_values(aux)


def _checked(args: Sequence[Any]) -> tuple[Any, ...]:
    low: tuple[Any, ...] = lower_values(tuple(args))
    map_lowered(lambda x: check_tangents("a function of values", [x.kind]), low)
    return low


def _like(low: Any, values: Any, kind_of: Callable[[Any], Any]) -> Any:
    """Return tangents or cotangents as arrays, one for each array of their values."""

    def one(x: Any, value: Any) -> Any:
        return Lowered(x.kind, lowered([kind_of(x.kind)], [value])) if type(x) is Lowered else value

    given = tuple(values) if isinstance(low, tuple) and isinstance(values, list) else values
    return tree_map(one, low, given, is_leaf=lambda x: type(x) is Lowered)


def _tangent(kind: Any) -> Any:
    return kind.to_tangent_aval()


def _cotangent_kind(kind: Any) -> Any:
    return kind.to_ct_aval()


def _as_tangent(x: Lowered) -> Any:
    return raised([x.kind.to_tangent_aval()], x.arrays)[0]


def _cotangent(x: Lowered) -> Any:
    return raised([x.kind.to_ct_aval()], x.arrays)[0]
