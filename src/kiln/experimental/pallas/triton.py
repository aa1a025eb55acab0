"""Names used by kernels written for Triton, as far as they are meaningful on a CPU."""

from __future__ import annotations

from typing import Any

from kiln.core.ref import Ref, RefView
from kiln.experimental.pallas.kernels import dot
from kiln.experimental.pallas.masked import load as _load
from kiln.experimental.pallas.masked import store as _store
from kiln.experimental.pallas.specs import CompilerParams as _Params

__all__ = ["CompilerParams", "dot", "load", "store"]


class CompilerParams(_Params):
    """Parameters of Triton's compiler. Accepted, without effect."""


def load(
    ref: Ref | RefView,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """Return the contents of a reference or a view, with `other` where the mask is false.

    Example:
        >>> from kiln.experimental.pallas import triton
        >>> ref = kiln.new_ref(jnp.arange(4.0))
        >>> triton.load(ref.at[1:], mask=jnp.array([True, False, True]), other=0.0)
        Array([1., 0., 3.], dtype=float32)
    """
    return _load(ref, mask=mask, other=other)


def store(
    ref: Ref | RefView, val: Any, *, mask: Any = None, eviction_policy: str | None = None
) -> None:
    """Write to a reference or a view where the mask is true.

    `val` is broadcast to the shape of `ref`. `eviction_policy` has no effect: it is a hint to other
    compilers.
    """
    _store(ref, None, val, mask=mask)
