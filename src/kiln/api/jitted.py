"""The type of what `jit` returns: read by type checkers, never at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from kiln.jit.history import CacheInfo
from kiln.jit.stages.traced import Lowered, Traced

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
A = TypeVar("A")


class Unannotated:
    """Stands for a type that a checker does not know; nothing else is assignable to it."""


class Jitted(Protocol[P, R]):
    """A jitted function: called like the function, with its stages as methods.

    The methods accept `ShapeDtypeStruct`s where the function accepts arrays.
    """

    @property
    def __name__(self) -> str: ...

    @property
    def __wrapped__(self) -> Callable[P, R]: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the compiled program for these arguments."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Jitted[P, R]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Unannotated, Q], R], instance: Any, owner: Any = None
    ) -> Callable[..., R]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[A, Q], R], instance: A, owner: Any = None
    ) -> Callable[Q, R]: ...

    def trace(self, /, *args: Any, **kwargs: Any) -> Traced:
        """Trace for the types of the arguments: see `JitFunction`, as for all methods."""

    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and translate for the engine."""

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the results."""

    def explain_memory(self, /, *args: Any, **kwargs: Any) -> str:
        """Return a report of memory."""

    def is_stale(self) -> bool:
        """Tell whether a new function would run another program."""

    def cache_info(self) -> CacheInfo:
        """Return what tracing and compiling has cost."""

    def clear_cache(self) -> None:
        """Forget the programs."""
