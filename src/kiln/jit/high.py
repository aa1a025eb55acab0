"""Calls of jitted functions with high values: arrays in, arrays out.

The program takes the arrays that the values consist of. It returns those that the results consist
of, and those of each mutable value, which are stored in it after the call. Values that the function
closes over are found while it is traced, and passed from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source, definition_of, name_of
from kiln.base.tree import tree_map
from kiln.control.high.high_values import Lowered, lent, lower, store
from kiln.control.regions.held_refs import is_derivative
from kiln.core.hitypes import TYPES, NeedsArrays, owned, owner_of
from kiln.core.trace import Tracer, state
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions
from kiln.jit.signatures.parameters import Chosen


def has_high(leaves: Sequence[Any]) -> bool:
    """Tell whether some leaf is a high value."""
    return any(type(x) in TYPES for x in leaves)


def _lower_tree(changing: list[Any], tree: Any) -> Any:
    """Return a tree with high values replaced by their arrays; also list the mutable ones."""

    def one(x: Any) -> Any:
        if type(x) not in TYPES:
            return x
        found = lower(x)
        if found.kind.has_qdd:
            changing.append(x)
        return found

    return tree_map(one, tree)


def _raise_tree(changing: list[Any], tree: Any) -> Any:
    """Undo `_lower_tree`: create new values, which belong to the program that is being recorded."""

    def one(x: Any) -> Any:
        if type(x) is not Lowered:
            return x
        value = x.value()
        if x.kind.has_qdd:
            changing.append(owned(value))
        return value

    return tree_map(one, tree, is_leaf=lambda x: type(x) is Lowered)


class HighCalls:
    """The calls of a jitted function that pass, or close over, high values.

    `make` returns a jitted function, given a function, its static parameters and its placement.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Chosen,
        placement: PlacementOptions,
        make: Callable[[Callable[..., Any], Chosen, PlacementOptions], Any],
    ) -> None:
        self._fun = fun
        self._static = static
        self.closed: list[Any] = []
        self.is_needed = False
        """Whether all calls take this path: found while the function was traced."""
        self._jitted = make(_named(self._on_arrays, fun), _after_one(static), _moved(placement))

    def _dynamic(self, args: Any, kwargs: Any, change: Callable[[Any], Any]) -> Any:
        numbers, names = self._static.argnums, self._static.argnames
        return (
            [x if i in numbers else change(x) for i, x in enumerate(args)],
            {k: kwargs[k] if k in names else change(kwargs[k]) for k in sorted(kwargs)},
        )

    def _on_arrays(self, closed: Sequence[Lowered], /, *args: Any, **kwargs: Any) -> Any:
        changing = [*self.closed]
        args, kwargs = self._dynamic(args, kwargs, functools.partial(_raise_tree, changing))
        with lent(self.closed, closed):
            found = self._fun(*args, **kwargs)
            returned: list[Any] = []
            results = _lower_tree(returned, found)
            for x in returned:
                if any(x is y for y in changing):
                    raise _returned(self._fun, x)
            return results, [lower(x) for x in changing]

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the program on the arrays, and store what values hold afterwards.

        Raises: ValueError for a mutable value that is passed twice, or returned.
        """
        while True:
            try:
                if is_derivative(state.trace) and self._holds(args, kwargs):
                    # Its rules, which run later, write to the values themselves.
                    return self._fun(*args, **kwargs)
                return self.run(self._jitted, args, kwargs)
            except NeedsArrays as error:
                self.note(error)

    def _holds(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        low, low_kwargs = self._dynamic(args, kwargs, functools.partial(_lower_tree, []))
        closed = [lower(x) for x in self.closed]
        found: bool = self._jitted.entry_for((closed, *low), low_kwargs).holds
        return found

    def run(self, program: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run a program of the arrays once."""
        changing = [*self.closed]
        low, low_kwargs = self._dynamic(args, kwargs, functools.partial(_lower_tree, changing))
        if len({id(x) for x in changing}) < len(changing):
            raise _twice(self._fun)
        results, states = program([lower(x) for x in self.closed], *low, **low_kwargs)
        store(changing, states)
        return _raise_tree([], results)

    def trace(self, args: Sequence[Any], kwargs: dict[str, Any]) -> HighStage:
        """Trace for the types of the arrays that the arguments consist of."""
        while True:
            low, low_kwargs = self._dynamic(args, kwargs, functools.partial(_lower_tree, []))
            try:
                closed = [lower(x) for x in self.closed]
                return HighStage(self._jitted.trace(closed, *low, **low_kwargs), self)
            except NeedsArrays as error:
                self.note(error)

    def note(self, error: NeedsArrays) -> None:
        """Record that the function closes over a high value, or returns one.

        Raises: the error, if the call already takes this path.
        """
        value = error.value
        if (value is None and self.is_needed) or any(value is x for x in self.closed):
            raise error
        self.is_needed = True
        if value is not None:
            owner_of(value)
            if any(isinstance(x, Tracer) and not x.owner.live for x in lower(value).arrays):
                # The function itself made it, outside of a loop that uses it.
                raise error
            self.closed.append(value)


class HighStage:
    """A stage of ahead-of-time compilation: wraps that of the arrays; the last takes values.

    Its `in_avals` and similar attributes are those of the program of arrays.
    """

    def __init__(self, stage: Any, calls: HighCalls) -> None:
        self._stage = stage
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)

    def lower(self, **options: Any) -> HighStage:
        """Translate the program for the engine."""
        return HighStage(self._stage.lower(**options), self._calls)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> HighStage:
        """Compile the program."""
        return HighStage(self._stage.compile(compiler_options), self._calls)

    @property
    def out_info(self) -> Any:
        """The types of the results."""
        results, _ = self._stage.out_info
        return tree_map(
            lambda x: x.kind if type(x) is Lowered else x,
            results,
            is_leaf=lambda x: type(x) is Lowered,
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled program on values, and store the new contents of mutable ones."""
        return self._calls.run(self._stage, args, kwargs)


def _named(on_arrays: Callable[..., Any], fun: Callable[..., Any]) -> Callable[..., Any]:
    def high(*args: Any, **kwargs: Any) -> Any:
        return on_arrays(*args, **kwargs)

    high.__name__ = name_of(fun)
    high.__qualname__ = getattr(fun, "__qualname__", high.__name__)
    return high


def _after_one(chosen: Chosen) -> Chosen:
    return Chosen(tuple([i + 1 for i in chosen.argnums]), chosen.argnames)


def _moved(placement: PlacementOptions) -> PlacementOptions:
    if placement is NO_PLACEMENT:
        return placement
    ins, outs = placement.in_shardings, placement.out_shardings
    if ins is not None and not isinstance(ins, (tuple, list)):
        raise NotImplementedError(
            three_lines(
                f"call of a function jitted with in_shardings={ins} at {current_source()}",
                "one sharding for all arguments cannot be applied to values of other kinds",
                "give in_shardings a tuple with an entry for each argument",
            )
        )
    return PlacementOptions(
        _after_one(placement.donated),
        placement.device,
        None if ins is None else (None, *ins),
        None if outs is None else (outs, None),
    )


def _returned(fun: Callable[..., Any], value: Any) -> ValueError:
    return ValueError(
        three_lines(
            f"call of {name_of(fun)} at {current_source()}",
            f"the jitted function {definition_of(fun)} returned a value of type "
            f"{type(value).__name__} that was passed in or closed over, and that changes",
            "return what it holds; the value itself is changed by the call",
        )
    )


def _twice(fun: Callable[..., Any]) -> ValueError:
    return ValueError(
        three_lines(
            f"call of {name_of(fun)} at {current_source()}",
            "a value that changes was passed twice, or passed and closed over",
            "pass it once, and use it under one name",
        )
    )
