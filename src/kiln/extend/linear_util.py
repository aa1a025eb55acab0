"""Functions with a stack of transformations of their arguments and results.

The names are those of `jax.extend.linear_util`; libraries flatten functions with them. In kiln,
transformations are traces, and functions are plain.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source, definition_of, name_of
from kiln.base.weak import WeakKeyDictionary

Transformation = Callable[..., Any]


class StoreException(Exception):
    """A store was read before the function ran, or written twice."""


class Store:
    """A place for one value that a transformation returns beside the results."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: list[Any] = []

    def store(self, value: Any) -> None:
        """Set the value.

        Raises: StoreException if there is one.
        """
        if self._value:
            raise StoreException(
                three_lines(
                    f"second value for a store at {current_source()}",
                    "Store occupied: the wrapped function has run already",
                    "wrap the function again for each call: lu.wrap_init(fun)",
                )
            )
        self._value.append(value)

    @property
    def val(self) -> Any:
        """The value.

        Raises: StoreException if there is none.
        """
        if not self._value:
            raise StoreException(
                three_lines(
                    f"value of a store at {current_source()}",
                    "Store empty: the wrapped function has not run",
                    "call the wrapped function (call_wrapped) before the thunk",
                )
            )
        return self._value[0]

    def __bool__(self) -> bool:
        return bool(self._value)


class WrappedFun:
    """A function `f` with transformations applied to it; `call_wrapped` runs all."""

    __slots__ = ("debug_info", "f", "f_transformed", "in_type", "params", "stores", "transforms")

    def __init__(
        self,
        f: Callable[..., Any],
        f_transformed: Callable[..., Any],
        transforms: tuple[tuple[Any, tuple[Any, ...]], ...],
        stores: tuple[Store | None, ...],
        params: dict[str, Any],
        debug_info: Any = None,
    ) -> None:
        self.f = f
        self.f_transformed = f_transformed
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.debug_info = debug_info
        self.in_type = None

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function with its transformations."""
        return self.f_transformed(*args, **{**self.params, **kwargs})

    def wrap(self, gen: Any, static: tuple[Any, ...], store: Store | None) -> WrappedFun:
        """Return the function with one more transformation, a function of the inner one."""
        extra = (store,) if store is not None else ()
        inner = functools.partial(gen, self.f_transformed, *extra, *static)
        return WrappedFun(
            self.f,
            inner,
            ((gen, static), *self.transforms),
            (store, *self.stores),
            self.params,
            self.debug_info,
        )

    def populate_stores(self, stores: tuple[Store | None, ...]) -> None:
        """Copy values from the stores of an equal function."""
        for mine, other in zip(self.stores, stores, strict=True):
            if mine is not None and other is not None:
                mine.store(other.val)

    def replace_debug_info(self, debug_info: Any) -> WrappedFun:
        """Return the function with other information for messages."""
        return WrappedFun(
            self.f, self.f_transformed, self.transforms, self.stores, self.params, debug_info
        )

    @property
    def __name__(self) -> str:
        return name_of(self.f)

    def _key(self) -> Any:
        return self.f, self.transforms, tuple(sorted(self.params.items()))

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()

    def __repr__(self) -> str:
        steps = "".join(f"{name_of(gen)}{static or ''} of " for gen, static in self.transforms)
        return f"<{steps}{definition_of(self.f)}>"


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """Return a function without transformations; `params` are keyword arguments of each call.

    `debug_info` is kept with it, for messages.
    """
    return WrappedFun(f, f, (), (), dict(params or {}), debug_info)


def transformation2(gen: Transformation, *given: Any) -> Any:
    """Turn `gen(f, *static, *args, **kwargs)` into a transformation `(wrapped, *static)`.

    The result is the transformed function. A decorator.
    """
    if not given:
        return functools.partial(transformation2, gen)
    wrapped, *static = given
    return wrapped.wrap(gen, tuple(static), None)


def transformation_with_aux2(gen: Transformation, *given: Any, use_eq_store: bool = False) -> Any:
    """Turn `gen(f, store, *static, *args)` into a transformation `(wrapped, *static)`.

    The result is the transformed function, and a thunk that returns what `gen` stored. A decorator.
    """
    if not given:
        return functools.partial(transformation_with_aux2, gen)
    wrapped, *static = given
    store = Store()
    return wrapped.wrap(gen, tuple(static), store), lambda: store.val


def transformation(gen: Callable[..., Iterator[Any]], *given: Any) -> Any:
    """Turn a generator `gen(*static, *args)` into a transformation `(wrapped, *static)`.

    It yields the arguments for the function, as (args, kwargs), then the results. A decorator.
    """
    if not given:
        return functools.partial(transformation, gen)
    wrapped, *static = given

    @functools.wraps(gen)
    def run(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _driven(gen, f, args, kwargs)

    return wrapped.wrap(run, tuple(static), None)


def transformation_with_aux(gen: Callable[..., Iterator[Any]], *given: Any) -> Any:
    """Like `transformation`, for generators that yield at last the results and another value.

    The result is the transformed function, and a thunk that returns the other value.
    """
    if not given:
        return functools.partial(transformation_with_aux, gen)
    wrapped, *static = given
    store = Store()

    @functools.wraps(gen)
    def run(f: Callable[..., Any], kept: Store, *args: Any, **kwargs: Any) -> Any:
        outs, aux = _driven(gen, f, args, kwargs)
        kept.store(aux)
        return outs

    return wrapped.wrap(run, tuple(static), store), lambda: store.val


def _driven(
    gen: Callable[..., Any], f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    running = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(running)
    result = running.send(f(*inner_args, **inner_kwargs))
    running.close()
    return result


def merge_linear_aux(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[bool, Any]:
    """Return what the one thunk returns that has a value, and whether it is the first.

    Raises: StoreException unless exactly one has.
    """
    found = []
    for is_first, thunk in ((True, first), (False, second)):
        try:
            found.append((is_first, thunk()))
        except StoreException:
            continue
    if len(found) != 1:
        raise StoreException("both stores occupied" if found else "neither store occupied")
    return found[0]


def cache(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call(wrapped function, *args)`, its results kept as long as the function lives."""
    kept: WeakKeyDictionary[Any, dict[Any, tuple[Any, tuple[Store | None, ...]]]]
    kept = WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        key = (fun.transforms, tuple(sorted(fun.params.items())), args)
        results = kept.setdefault(fun.f, {})
        if key in results:
            result, stores = results[key]
            fun.populate_stores(stores)
            return result
        result = call(fun, *args)
        results[key] = result, fun.stores
        return result

    cached.cache_clear = kept.clear  # type: ignore[attr-defined]
    return cached


__all__ = [
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]
