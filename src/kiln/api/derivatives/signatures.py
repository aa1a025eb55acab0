"""The types of what `grad` and its kin return: read by type checkers, never at run time.

The gradient with respect to numbers and arrays is an array; that with respect to a tree is a tree
of its type. A checker selects the overload by the type of the differentiated argument, which is
passed by position. That of a lambda or of a function without annotations is Any, which also
matches `Unannotated`.
"""

from __future__ import annotations

from typing import Any, ParamSpec, Protocol, TypeVar, overload

from kiln.api.jitted import Unannotated
from kiln.core.array_type import Array, ArrayLike

# Bound to Any: a checker reports nothing about the parameter of a lambda.
A = TypeVar("A", bound=Any)
X = TypeVar("X", bound=ArrayLike)
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Gradient(Protocol[A, P]):  # type: ignore[misc]
    """A gradient with respect to the first argument."""

    @overload
    def __call__(
        self: Gradient[Unannotated, P], x: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> Any: ...
    @overload
    def __call__(self: Gradient[X, P], x: X, /, *args: P.args, **kwargs: P.kwargs) -> Array: ...
    @overload
    def __call__(self, x: A, /, *args: P.args, **kwargs: P.kwargs) -> A: ...


class GradientAndAux(Protocol[A, P, R_co]):  # type: ignore[misc]
    """A gradient with respect to the first argument, and what else the function returns."""

    @overload
    def __call__(
        self: GradientAndAux[Unannotated, P, R_co], x: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Any, R_co]: ...
    @overload
    def __call__(
        self: GradientAndAux[X, P, R_co], x: X, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Array, R_co]: ...
    @overload
    def __call__(self, x: A, /, *args: P.args, **kwargs: P.kwargs) -> tuple[A, R_co]: ...


class ValueAndGradient(Protocol[A, P, R_co]):  # type: ignore[misc]
    """A value, and its gradient with respect to the first argument."""

    @overload
    def __call__(
        self: ValueAndGradient[Unannotated, P, R_co], x: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[R_co, Any]: ...
    @overload
    def __call__(
        self: ValueAndGradient[X, P, R_co], x: X, /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[R_co, Array]: ...
    @overload
    def __call__(self, x: A, /, *args: P.args, **kwargs: P.kwargs) -> tuple[R_co, A]: ...


class Jacobian(Protocol[A, P, R]):  # type: ignore[misc]
    """A derivative whose type is known if it is that of an array with respect to an array."""

    @overload
    def __call__(
        self: Jacobian[Unannotated, P, R], x: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> Any: ...
    @overload
    def __call__(
        self: Jacobian[A, P, Unannotated], x: A, /, *args: P.args, **kwargs: P.kwargs
    ) -> Any: ...
    @overload
    def __call__(
        self: Jacobian[X, P, Array], x: X, /, *args: P.args, **kwargs: P.kwargs
    ) -> Array: ...
    @overload
    def __call__(self, x: A, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
