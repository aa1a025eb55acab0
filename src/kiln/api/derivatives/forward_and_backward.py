"""`fwd_and_bwd`: the two passes of a reverse-mode derivative as two compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.api.derivatives.arguments import require_callable
from kiln.api.derivatives.linear import vjp
from kiln.api.jit import jit


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of `fun`, by default jitted.

    The first maps arguments to (value, residuals), with `has_aux` to (value, residuals, aux); the
    second maps residuals and a cotangent of the value to those of the arguments in `argnums`, as a
    tuple unless that is one number. Unlike the function that `vjp` returns, it is compiled once.

    Example:
        >>> fwd, bwd = kiln.fwd_and_bwd(lambda x: x**3, 0)
        >>> value, residuals = fwd(2.0)
        >>> bwd(residuals, 1.0)
        Array(12., dtype=float32, weak_type=True)
    """
    require_callable(fun, "fwd_and_bwd")
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        places = [i % len(args) for i in wanted]

        def partly(*moving: Any) -> Any:
            whole = list(args)
            for place, x in zip(places, moving, strict=True):
                whole[place] = x
            return fun(*whole, **kwargs)

        return vjp(partly, *[args[i] for i in places], has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if isinstance(argnums, int) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
