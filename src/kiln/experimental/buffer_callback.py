"""Python functions that write their results into given buffers.

The names are those of `jax.experimental.buffer_callback`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source, name_of
from kiln.base.tree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from kiln.control.effects.callback import io_callback, pure_callback
from kiln.core.trace import aval_of
from kiln.errors import JaxRuntimeError
from kiln.jit.signatures.struct import ShapeDtypeStruct

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


class ExecutionStage(enum.Enum):
    """The stage of execution at which a function is called."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """The context that a program passes to a function it calls."""

    stage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> NoReturn:
        """Raise: programs for the CPU have no streams.

        Raises: JaxRuntimeError.
        """
        raise JaxRuntimeError(
            three_lines(
                f"stream of a call at {current_source()}",
                "XLA FFI GPU context is not available",
                "use the buffers directly: they are in host memory",
            )
        )


class Buffer:
    """The memory of an operand, or of a result, which is writable.

    `numpy.asarray` and `numpy.from_dlpack` return arrays in this memory.
    """

    def __init__(self, array: np.ndarray, *, writeable: bool) -> None:
        self._array = array
        self.writeable = writeable

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        view = self._array.view()
        view.flags.writeable = self.writeable
        return np.array(view, dtype, copy=copy) if dtype is not None or copy else view

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __repr__(self) -> str:
        return f"Buffer(shape={self.shape}, dtype={self.dtype}, writeable={self.writeable})"


def buffer_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """Return a function of arrays that calls `callback(context, out, *args, **kwargs)`.

    `out` has the structure of `result_shape_dtypes`, with Buffers as leaves, which the callback
    writes; likewise `args` and `kwargs`, which it reads. `input_output_aliases` maps the numbers of
    operands to those of results that share their memory, counted as leaves. `vmap_method` is that
    of `pure_callback`; `command_buffer_compatible` is for other devices.

    Raises: ValueError for aliases of other types, and if the callback returns something.
    Source: the documentation of `jax.experimental.buffer_callback`.
    Example:
        >>> from kiln.experimental.buffer_callback import buffer_callback
        >>> def double(context, out, x):
        ...     np.asarray(out)[...] = 2 * np.asarray(x)
        >>> doubled = buffer_callback(double, kiln.ShapeDtypeStruct((2,), "float32"))
        >>> kiln.jit(doubled)(jnp.ones(2))
        Array([2., 2.], dtype=float32)
    """
    del command_buffer_compatible
    results = tree_map(lambda x: ShapeDtypeStruct(x.shape, x.dtype), result_shape_dtypes)
    aliases = {int(i): int(o) for i, o in (input_output_aliases or {}).items()}
    wanted, out_tree = tree_flatten(results)

    def called(*args: Any, **kwargs: Any) -> Any:
        avals = [aval_of(x) for x in tree_leaves((args, kwargs))]
        _check_aliases(callback, aliases, avals, wanted)
        ranks = [aval.ndim for aval in avals]

        def on_host(args: Any, kwargs: dict[str, Any]) -> Any:
            operands, tree = tree_flatten((args, kwargs))
            # Copies: the memory of operands belongs to the program, or to arrays of the user.
            held = [np.array(x) for x in operands]
            # Leading axes that vmap added.
            stacks = np.broadcast_shapes(
                *[x.shape[: x.ndim - rank] for x, rank in zip(held, ranks, strict=True)]
            )
            outs = [np.zeros((*stacks, *x.shape), x.dtype) for x in wanted]
            for i, o in aliases.items():
                held[i] = np.array(np.broadcast_to(held[i], outs[o].shape))
                outs[o] = held[i]
            given, named = tree_unflatten(tree, [Buffer(x, writeable=False) for x in held])
            made = tree_unflatten(out_tree, [Buffer(x, writeable=True) for x in outs])
            if callback(ExecutionContext(), made, *given, **named) is not None:
                raise ValueError(
                    three_lines(
                        f"buffer_callback of {name_of(callback)}",
                        "buffer_callback callback must not return any values.",
                        "write them into `out`: numpy.asarray(out)[...] = values",
                    )
                )
            return tree_unflatten(out_tree, outs)

        if has_side_effect:
            return io_callback(on_host, results, args, kwargs)
        return pure_callback(on_host, results, args, kwargs, vmap_method=vmap_method)

    return called


def _check_aliases(callback: Any, aliases: dict[int, int], avals: Any, wanted: Any) -> None:
    for i, o in sorted(aliases.items()):
        wrong = ""
        for kind, at, count in (("input", i, len(avals)), ("output", o, len(wanted))):
            if not 0 <= at < count:
                wrong = wrong or f"with {kind} index {at} outside the range [0, {count})"
        if not wrong and (avals[i].shape, avals[i].dtype) != (wanted[o].shape, wanted[o].dtype):
            wrong = f"referring to an input {avals[i]} and an output {wanted[o]} of another type"
        if wrong:
            raise ValueError(
                three_lines(
                    f"buffer_callback of {name_of(callback)} at {current_source()}",
                    f"input_output_aliases contains the mapping '{i}:{o}' {wrong}",
                    "count operands and results as leaves, from 0",
                )
            )
