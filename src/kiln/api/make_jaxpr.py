"""Inspecting a function's program and result types without running it."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from kiln.api.jit import wrap
from kiln.base.keywords import known_keywords
from kiln.base.source import api_boundary, name_of
from kiln.base.wrapping import wraps
from kiln.core.trace import axis_bound
from kiln.ir.jaxpr import ClosedJaxpr
from kiln.jit.function import JitFunction
from kiln.jit.stages.traced import Traced


@known_keywords
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: Any = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    *,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Callable[..., Any]:
    """Return a function that traces `fun` for the types of its arguments and returns the jaxpr.

    `axis_env` lists names and sizes of mapped axes that the function may refer to. If
    `return_shape`, the result is a pair: the jaxpr, and the types of the results. Axes named by
    `abstracted_axes` (see `jit`) have symbolic sizes in the jaxpr.

    Example:
        >>> print(kiln.make_jaxpr(lambda x: x * 2.0)(jnp.ones(3)))
        { lambda ; a:f32[3]. let b:f32[3] = mul a 2.0 in (b,) }
        >>> print(kiln.make_jaxpr(kiln.grad(jnp.sin))(1.0))
        { lambda ; a:f32[]. let
          _:f32[] = sin a
          b:f32[] = cos a
          c:f32[] = mul 1.0 b
        in (c,) }
    """
    jitted = wrap(_referable(fun), static_argnums or None, abstracted_axes=abstracted_axes)

    @wraps(fun)
    @api_boundary
    def jaxpr_of(*args: Any, **kwargs: Any) -> ClosedJaxpr | tuple[ClosedJaxpr, Any]:
        with contextlib.ExitStack() as axes:
            for name, size in axis_env or ():
                axes.enter_context(axis_bound(name, size))
            traced: Traced = jitted.trace(*args, **kwargs)
        return (traced.jaxpr, traced.out_info) if return_shape else traced.jaxpr

    jaxpr_of.__name__ = f"make_jaxpr({name_of(fun)})"
    jaxpr_of.__qualname__ = f"make_jaxpr({getattr(fun, '__qualname__', name_of(fun))})"
    return jaxpr_of


@api_boundary
def eval_shape(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of the results of `fun(*args, **kwargs)` without computing them.

    Arguments may be arrays, or any objects with a shape and a dtype.

    Example:
        >>> kiln.eval_shape(jnp.matmul, jnp.ones((2, 3)), jnp.ones((3, 4)))
        ShapeDtypeStruct(shape=(2, 4), dtype=float32)
        >>> kiln.eval_shape(lambda x: {"n": len(x)}, jnp.ones((2, 3)))
        {'n': ShapeDtypeStruct(shape=(), dtype=int32, weak_type=True)}
    """
    jitted = fun if isinstance(fun, JitFunction) else wrap(_holder(fun))
    return jitted.eval_shape(*args, **kwargs)


def _referable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that can be weakly referenced."""
    try:
        weakref.ref(fun)
    except TypeError:
        return _holder(fun)
    return fun


def _holder(fun: Callable[..., Any]) -> Callable[..., Any]:
    # Temporary bound methods and partials would die before their weak reference is used.
    @wraps(fun)
    def held(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    return held
