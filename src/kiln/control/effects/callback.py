"""Python functions called by programs: pure, with results and effects, or only for effects.

The engine calls a `HostFunction` with NumPy arrays whenever the program reaches it. Under `vmap`
that function is called once per element, unless the user says how to call it on stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import PyTreeDef, tree_flatten, tree_leaves, tree_unflatten
from kiln.control.effects.host_call import as_declared, described, raise_failure
from kiln.control.regions.arguments import is_array
from kiln.core import trace
from kiln.core.arrays.array import from_host, host_value
from kiln.core.arrays.transfers import explicit
from kiln.core.engines import engine
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.execution.compilation import as_array
from kiln.ir.effects import DEBUG, DEBUG_ORDERED, IO, IO_ORDERED, Effects
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray
from kiln.ops.shape import mapped_at, to_front

__all__ = [
    "debug_callback",
    "effects_barrier",
    "io_callback",
    "pure_callback",
]

STACKED = ("expand_dims", "broadcast_all")
ONE_BY_ONE = ("sequential", "sequential_unrolled")
AS_GIVEN = "legacy_vectorized"
"""The function gets unmapped arguments as they are."""

METHODS = (*ONE_BY_ONE, *STACKED, AS_GIVEN)


class HostFunction(Record):
    """A user function as a function of NumPy arrays. Leaves that are not arrays are `static`."""

    fun: Callable[..., Any]
    in_tree: PyTreeDef
    static: tuple[tuple[int, Any], ...]
    dtypes: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return name_of(self.fun)

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        """Return the leaves of the result."""
        leaves: list[Any] = [
            from_host(x, ShapedArray(x.shape, dtype), is_sent=False)
            for x, dtype in zip(arrays, self.dtypes, strict=True)
        ]
        for i, x in self.static:
            leaves.insert(i, x)
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        return tree_leaves(self.fun(*args, **kwargs))


class OneByOne(Record):
    """A host function over stacks: called for one element after another."""

    fun: Callable[..., list[Any]]
    axes: tuple[int | None, ...]
    results: tuple[ShapedArray, ...]
    """The types of one call's results."""

    @property
    def __name__(self) -> str:
        return name_of(self.fun)

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        """Return the stacked results."""
        sizes = [x.shape[a] for x, a in zip(arrays, self.axes, strict=True) if a is not None]
        calls = []
        for i in range(sizes[0]):
            picked = [
                x if a is None else np.asarray(x[(slice(None),) * a + (i,)])
                for x, a in zip(arrays, self.axes, strict=True)
            ]
            calls.append(checked(self.fun(*picked), self.results))
        if not calls:
            return [np.zeros((0, *a.shape), a.physical().dtype) for a in self.results]
        return [np.stack(values) for values in zip(*calls, strict=True)]


def checked(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """Return what a host function returned as arrays of the declared types, copied.

    Raises: RuntimeError if there are more or fewer, or a type differs.
    """
    types = [(a.shape, a.physical().dtype) for a in avals]
    return [np.array(x) for x in as_declared(values, types)]  # type: ignore[arg-type]


class HostCall(Primitive):
    """A call of `callback(*arrays)` on the host."""

    multiple = True

    def infer(self, *xs: Any, result_avals: Any = (), **_: Any) -> list[ShapedArray]:
        return list(result_avals)

    def numpy(self, *xs: Any, callback: Any, result_avals: Any = (), **_: Any) -> Any:
        with trace.in_force(trace.state.root):
            return checked(callback(*xs), result_avals)

    @explicit
    def evaluate(self, *xs: Any, callback: Any, result_avals: Any = (), **params: Any) -> Any:
        if params.get("ordered"):
            engine.barrier()
        arrays = [host_value(as_array(x)) for x in xs]
        failure = None
        try:
            outs = checked(callback(*arrays), result_avals)
        except FloatingPointError:
            # Raised by a debugging option inside the function.
            raise
        except Exception as error:  # noqa: BLE001, whatever the user's function raises
            failure = described(error)
        if failure is not None:
            raise_failure(failure, f"{self.name} to {name_of(callback)} at {current_source()}")
        return [from_host(x, a) for x, a in zip(outs, result_avals, strict=True)]

    def one_by_one(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Call the function on stacks, element by element."""
        results = params.get("result_avals", ())
        changed: dict[str, Any] = {"callback": OneByOne(params["callback"], tuple(axes), results)}
        if results:
            changed["result_avals"] = stacked(results, size)
        outs = self.bind(*xs, **{**params, **changed})
        return outs, [0] * len(outs)


class DebugCallback(HostCall):
    """Call a function for its effects; derivatives ignore it."""

    name = "debug_callback"
    on_keys = "look"

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset({DEBUG_ORDERED if params["ordered"] else DEBUG})

    def numpy(self, *xs: Any, callback: Any, **_: Any) -> Any:
        with trace.in_force(trace.state.root):
            callback(*xs)
        return []

    def evaluate(self, *xs: Any, callback: Any, ordered: bool, **_: Any) -> Any:
        if ordered:
            engine.barrier()
        callback(*[host_value(as_array(x)) for x in xs])
        return []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return self.bind(*primals, **params), []

    def transpose(self, cts: Sequence[Any], *xs: Any, **params: Any) -> Any:
        return [None] * len(xs)

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        return self.one_by_one(size, xs, axes, params)


class PureCallback(HostCall):
    """Call a function for its results; the call may be dropped, shared, or repeated."""

    name = "pure_callback"

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise ValueError(
            three_lines(
                f"derivative of a pure_callback to {name_of(params['callback'])} "
                f"at {current_source()}",
                "Pure callbacks do not support JVP.",
                "Please use `custom_jvp` to use callbacks while taking gradients.",
            )
        )

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        method = params["vmap_method"]
        if method in ONE_BY_ONE:
            return self.one_by_one(size, xs, axes, params)
        if method not in METHODS:
            raise NotImplementedError(
                three_lines(
                    f"vmap of a pure_callback to {name_of(params['callback'])} "
                    f"at {current_source()}",
                    "vmap is only supported for the pure_callback primitive when vmap_method says "
                    f"how to call it on stacks. Got vmap_method={method}.",
                    "pass vmap_method='sequential', or 'expand_dims' or 'broadcast_all' if the "
                    "function takes arrays with a leading axis",
                )
            )
        lead = size if method == "broadcast_all" else 1
        moved = [
            to_front(x, a)
            if a is not None
            else x
            if method == AS_GIVEN
            else mapped_at(x, lead, None, 0)
            for x, a in zip(xs, axes, strict=True)
        ]
        results = stacked(params["result_avals"], size)
        outs = self.bind(*moved, **{**params, "result_avals": results})
        return outs, [0] * len(outs)


class IOCallback(HostCall):
    """Call a function for results and effects: once whenever the program reaches it."""

    name = "io_callback"

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset({IO_ORDERED if params["ordered"] else IO})

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise ValueError(
            three_lines(
                f"derivative of an io_callback to {name_of(params['callback'])} "
                f"at {current_source()}",
                "IO callbacks do not support JVP.",
                "call it on lax.stop_gradient(x), or give a derivative with custom_jvp",
            )
        )

    def transpose(self, ct: Any, *xs: Any, **params: Any) -> Any:
        raise ValueError(
            three_lines(
                f"transpose of an io_callback to {name_of(params['callback'])} "
                f"at {current_source()}",
                "IO callbacks do not support transpose.",
                "transpose the parts of the function before and after it",
            )
        )

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        if params["ordered"]:
            raise ValueError(
                three_lines(
                    f"vmap of an io_callback to {name_of(params['callback'])} "
                    f"at {current_source()}",
                    "Cannot `vmap` ordered IO callback.",
                    "pass ordered=False, or loop with lax.map or lax.scan",
                )
            )
        return self.one_by_one(size, xs, axes, params)

    def batch_over(self, axis: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        if axis.is_of_mesh:
            # The calls follow the order of the members.
            return self.one_by_one(axis.size, xs, axes, params)
        return self.batch(axis.size, xs, axes, **params)


debug_callback_p = DebugCallback()
pure_callback_p = PureCallback()
io_callback_p = IOCallback()


def stacked(avals: Sequence[ShapedArray], size: Any) -> tuple[ShapedArray, ...]:
    """Return the types of stacks."""
    return tuple(a.with_axis(0, size) for a in avals)


def _host_function(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], what: str, *, static: bool
) -> tuple[HostFunction, list[Any]]:
    if not callable(fun):
        raise TypeError(
            three_lines(
                f"{what} at {current_source()}",
                f"Expected a callable value, got {fun!r}",
                f"write {what}(function, ...)",
            )
        )
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    arrays = [x for x in leaves if is_array(x)]
    if not static and len(arrays) < len(leaves):
        other = next(x for x in leaves if not is_array(x))
        raise TypeError(
            three_lines(
                f"{what} of {definition_of(fun)} at {current_source()}",
                f"an argument of type {type(other)} is not a valid JAX type",
                "pass arrays and numbers; bind other values with functools.partial",
            )
        )
    others = tuple((i, x) for i, x in enumerate(leaves) if not is_array(x))
    found = tuple(aval_of(x).dtype for x in arrays)
    return HostFunction(fun, in_tree, others, found), arrays


def _declared(result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], PyTreeDef]:
    leaves, tree = tree_flatten(result_shape_dtypes)
    for x in leaves:
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(
                three_lines(
                    f"result_shape_dtypes of a callback at {current_source()}",
                    f"{x!r} has no shape and dtype",
                    "give kiln.ShapeDtypeStruct(shape, dtype) for each result, or arrays like them",
                )
            )
        if dtypes.canonicalize_dtype(x.dtype) != x.dtype:
            raise ValueError(
                three_lines(
                    f"result_shape_dtypes of a callback at {current_source()}",
                    "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is "
                    f"disabled: {x.dtype}",
                    "declare the 32-bit type, which 64-bit results become, or enable x64",
                )
            )
    return tuple([ShapedArray(x.shape, x.dtype) for x in leaves]), tree


def _check_place(sharding: Sharding | None, what: str) -> None:
    """Accept the shardings that JAX accepts; on the CPU all of them are alike.

    Raises: NotImplementedError for several devices.
    """
    if sharding is not None and len(sharding.device_set) != 1:
        raise NotImplementedError(
            three_lines(
                f"{what} with sharding={sharding} at {current_source()}",
                f"{what} only supports SingleDeviceSharding, but got {type(sharding)}",
                "leave it out: the function gets whole arrays, whatever their sharding is",
            )
        )


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects from a program.

    `result_shape_dtypes` is a pytree of objects with `shape` and `dtype`. `vmap_method`:
    "sequential" calls once per element, "broadcast_all" once with all arguments stacked in front,
    "expand_dims" likewise with a leading 1 for unmapped arguments, "legacy_vectorized" with
    unmapped arguments as they are. `sharding` is a device to call the function from.

    Raises: ValueError for another method and for 64-bit types without x64; NotImplementedError for
        a sharding over several devices.
    Example:
        >>> def on_host(x):
        ...     return np.sort(x)
        >>> kiln.jit(lambda x: kiln.pure_callback(on_host, x, x))(jnp.array([3, 1, 2]))
        Array([1, 2, 3], dtype=int32)
        >>> n = kiln.ShapeDtypeStruct((), jnp.int32)
        >>> f = lambda x: kiln.pure_callback(len, n, x, vmap_method="sequential")
        >>> kiln.vmap(f)(jnp.ones((2, 3)))
        Array([3, 3], dtype=int32)
    """
    _check_place(sharding, "pure_callback")
    if vmap_method not in (None, *METHODS):
        raise ValueError(
            three_lines(
                f"pure_callback of {name_of(callback)} at {current_source()}",
                f"vmap_method={vmap_method!r} is not known",
                f"use one of {', '.join(METHODS)}",
            )
        )
    fun, arrays = _host_function(callback, args, kwargs, "pure_callback", static=False)
    avals, tree = _declared(result_shape_dtypes)
    outs = pure_callback_p.bind(*arrays, callback=fun, result_avals=avals, vmap_method=vmap_method)
    return tree_unflatten(tree, outs)


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with side effects from a program.

    It runs once whenever the program reaches it; `ordered` calls run in program order. `sharding`
    is a device to call the function from.

    Raises: ValueError for 64-bit types without x64; NotImplementedError for a sharding over several
        devices.
    """
    _check_place(sharding, "io_callback")
    fun, arrays = _host_function(callback, args, kwargs, "io_callback", static=False)
    avals, tree = _declared(result_shape_dtypes)
    outs = io_callback_p.bind(*arrays, callback=fun, result_avals=avals, ordered=ordered)
    return tree_unflatten(tree, outs)


@overload
def debug_callback(
    callback: Callable[..., Any],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None: ...


@overload
def debug_callback(*, ordered: bool = False, partitioned: bool = False) -> Callable[..., None]: ...


@api_boundary
def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Call a Python function for its effects; its result is ignored.

    Differentiation calls it once, with the values of the forward pass; `vmap` once per element.
    Arguments that are not arrays are passed unchanged. `ordered` calls run in program order; a
    `partitioned` one is made for each device, with its part of the arrays. Options may be given
    before the arguments: `debug.callback(ordered=True)(f, x)`.

    Raises: TypeError if there is nothing to call.
    """

    def call(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        fun, arrays = _host_function(callback, args, kwargs, "debug.callback", static=True)
        debug_callback_p.bind(*arrays, callback=fun, ordered=ordered, partitioned=partitioned)

    if callback is None:
        refuse_arguments("debug.callback", args, kwargs)
        return api_boundary(call)
    call(callback, *args, **kwargs)
    return None


def refuse_arguments(what: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse arguments beside options if the function or format is given later.

    Raises: TypeError.
    """
    if args or kwargs:
        raise TypeError(
            three_lines(
                f"{what} at {current_source()}",
                # The name is that of JAX's message.
                f"{what.replace('.', '_')} received unexpected arguments in the two-call form: "
                f"{args=} {kwargs=}",
                f"write {what}(ordered=True)(first, *arguments)",
            )
        )


def effects_barrier() -> None:
    """Wait until the effects of all running programs have happened.

    Example:
        >>> kiln.jit(lambda x: kiln.debug.print("x is {}", x))(3)
        x is 3
        >>> kiln.effects_barrier()
    """
    engine.barrier()
