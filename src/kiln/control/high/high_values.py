"""High values as trees of arrays, and loops and branches that close over mutable ones.

A body that uses a mutable value from outside gets its arrays as part of the carry, and returns
them; afterwards the value holds those of the last iteration.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from kiln.base.errors import three_lines
from kiln.base.lazy import high_arguments
from kiln.base.source import current_source
from kiln.base.tree.nodes import register_pytree_node
from kiln.core.hitypes import (
    AvalQDD,
    ClosedOver,
    HighOperand,
    full_type_of,
    lowered,
    owned,
    owner_of,
    raised,
)

F = TypeVar("F", bound=Callable[..., Any])


class Lowered:
    """A value as a tree of the arrays that it consists of; the structure contains its type."""

    __slots__ = ("arrays", "kind")

    def __init__(self, kind: Any, arrays: Sequence[Any]) -> None:
        self.kind = kind
        self.arrays = arrays

    def value(self) -> Any:
        """Return a value that consists of the arrays."""
        return raised([self.kind], self.arrays)[0]


register_pytree_node(Lowered, lambda x: (tuple(x.arrays), x.kind), Lowered)


def lower(x: Any) -> Lowered:
    """Return the arrays of a value as a tree."""
    kind = full_type_of(x)
    return Lowered(kind, lowered([kind], [x]))


def _state(x: Any) -> Lowered:
    """Return the arrays of a mutable value, without weak types, which iterations may lose."""
    found = lower(x)
    normalize = getattr(found.kind.qdd, "normalize", None)
    if normalize is None:
        return found
    return Lowered(AvalQDD(found.kind.aval, normalize()), found.arrays)


def store(values: Sequence[Any], states: Sequence[Lowered]) -> None:
    """Update mutable values to other states."""
    for value, state in zip(values, states, strict=True):
        state.kind.aval.update_from_loval(state.kind.qdd, value, *state.arrays)


@contextmanager
def lent(values: Sequence[Any], states: Sequence[Lowered]) -> Iterator[None]:
    """Make values hold the arrays of the program being recorded, until the context ends."""
    before = [lower(owned(x)) for x in values]
    try:
        store(values, states)
        yield
    finally:
        store(values, before)


def _with_states(closed: Sequence[Any], fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fun` with the states of values as first operand, and as second result."""

    def lifted(states: Sequence[Lowered], *args: Any) -> Any:
        with lent(closed, states):
            return fun(*args), list(map(_state, closed))

    return lifted


Lifted = Callable[[Callable[..., Any]], Callable[..., Any]]


class Decorator(Protocol):
    """Returns a function of the same type."""

    def __call__(self, loop: F, /) -> F:
        """Return the function, decorated."""
        ...


def carrying(lift: Callable[..., Any]) -> Decorator:
    """Extend a loop so that functions passed to it may use mutable values from outside.

    `lift` calls the loop, given its arguments by name, a function that adds states to a body, and
    the states; it returns the result, and the final states.
    """

    def decorate(loop: F) -> F:
        @functools.wraps(loop)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return loop(*args, **kwargs)
            except ClosedOver as error:
                closed = [error.value]
            except HighOperand:
                return high_arguments.over_values(call, args, kwargs)
            given = inspect.signature(loop).bind(*args, **kwargs).arguments
            while True:
                try:
                    lifted = functools.partial(_with_states, closed)
                    found, states = lift(loop, {**given}, lifted, list(map(_state, closed)))
                except ClosedOver as error:
                    if any(error.value is x for x in closed):
                        raise
                    closed.append(error.value)
                else:
                    for x in closed:
                        # Raises ClosedOver if the program around the loop has to carry the value as
                        # well.
                        owner_of(x)
                    store(closed, states)
                    return found

        return call  # type: ignore[return-value]

    return decorate


def _stepped(step: Callable[..., Any], carry: Any, *index: Any) -> Any:
    """Return the carry and the states after an iteration."""
    after, found = step(carry[1], *index, carry[0])
    return after, _alike(carry[1], found)


def _alike(before: Sequence[Lowered], after: Sequence[Lowered]) -> Sequence[Lowered]:
    """Return the states after an iteration of a loop.

    Raises: TypeError unless their types are unchanged.
    """
    for old, new in zip(before, after, strict=True):
        if old.kind != new.kind:
            raise TypeError(
                three_lines(
                    f"a loop that changes a value of type {old.kind.aval} at {current_source()}",
                    "type-changing mutations not allowed in loops: the value was in the state "
                    f"{old.kind.qdd}, and is in the state {new.kind.qdd} after an iteration",
                    "bring it, before the loop, to the state in which every iteration leaves it",
                )
            )
    return after


def over_scan(
    scan: Callable[..., Any], given: dict[str, Any], lifted: Lifted, states: list[Lowered]
) -> Any:
    """Carry states through a scan."""
    step = lifted(given.pop("f"))

    def body(carry: Any, x: Any) -> Any:
        (after, y), found = step(carry[1], carry[0], x)
        return (after, _alike(carry[1], found)), y

    (last, states), ys = scan(body, (given.pop("init"), states), **given)
    return (last, ys), states


def over_fori(
    fori_loop: Callable[..., Any], given: dict[str, Any], lifted: Lifted, states: list[Lowered]
) -> Any:
    """Carry states through a fori_loop."""
    step = lifted(given.pop("body_fun"))
    return fori_loop(
        body_fun=lambda i, carry: _stepped(step, carry, i),
        init_val=(given.pop("init_val"), states),
        **given,
    )


def over_while(
    while_loop: Callable[..., Any], given: dict[str, Any], lifted: Lifted, states: list[Lowered]
) -> Any:
    """Carry states through a while_loop; its condition only reads them."""
    test, step = lifted(given["cond_fun"]), lifted(given["body_fun"])
    return while_loop(
        lambda carry: test(carry[1], carry[0])[0],
        lambda carry: _stepped(step, carry),
        (given["init_val"], states),
    )


def over_branches(
    choose: Callable[..., Any], given: dict[str, Any], lifted: Lifted, states: list[Lowered]
) -> Any:
    """Pass states to branches, which return them."""
    operands = given.pop("operands", ())
    if "operand" in given:
        operands = (*operands, given.pop("operand"))
    which, *branches = given.values()
    chosen = [lifted(f) for f in branches] if len(branches) > 1 else [list(map(lifted, *branches))]
    return choose(which, *chosen, states, *operands)
