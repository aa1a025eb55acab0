"""`pmap` and `smap`: a function mapped over one axis of devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kiln.api.arrays import devices as all_devices
from kiln.api.jit import jit
from kiln.api.mapping.vmap import vmap
from kiln.api.sharding.shard_map import INFER, shard_map
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.keywords import known_keywords
from kiln.base.options.config import options
from kiln.base.process.identity import process_count
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_map, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.control.regions.bodies import check_callable
from kiln.core.trace import aval_of
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.types import ShapedArray
from kiln.numpy.shapes import moveaxis
from kiln.ops.shape import expand_dims, squeeze

P = ParamSpec("P")
R = TypeVar("R")
_UNNAMED = "<no axis name>"


@known_keywords
def pmap(
    fun: Callable[P, R],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
    global_arg_shapes: Any = None,
) -> Callable[P, R]:
    """Map a function over an axis of its arguments, one slice to a device, as one program.

    `in_axes` and `out_axes` are those of `vmap`. Collectives refer to `axis_name`. Keyword
    arguments are mapped along their first axis. The result is sharded over the devices.

    Raises: ValueError if mapped axes differ in size, or there are fewer devices than that.
    Example:
        >>> kiln.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.array([4.0]))
        Array([1.], dtype=float32)
    """
    check_callable("pmap", "fun", fun)
    statics = _numbers(static_broadcasted_argnums)
    name = _UNNAMED if axis_name is None else axis_name

    def mapped_once(*args: Any, **kwargs: Any) -> Any:
        if statics and max(statics) >= len(args):
            raise ValueError(
                three_lines(
                    f"pmap of {name_of(fun)} at {current_source()}",
                    f"pmapped function has static_broadcasted_argnums={tuple(statics)} but was "
                    f"called with only {len(args)} positional "
                    f"argument{'s' if len(args) != 1 else ''}. All static broadcasted arguments "
                    "must be passed positionally.",
                    "pass them by position",
                )
            )
        static = {i: args[i] for i in statics}
        traced = tuple(x for i, x in enumerate(args) if i not in static)
        axes = in_axes
        if isinstance(axes, (tuple, list)):
            axes = tuple(a for i, a in enumerate(axes) if i not in static)
        leaves, tree = tree_flatten((traced, kwargs))
        none = {"is_leaf": lambda a: a is None}
        found = broadcast_prefix(axes, traced, **none)
        found = [*found, *[0] * (len(leaves) - len(found))]
        size = _mapped_size(fun, leaves, found, axis_size)
        if size == 1 and list(devices or all_devices()[:1]) == all_devices()[:1]:
            return _alone(fun, args, kwargs, static, axes, out_axes, name)
        mesh = _mesh(fun, size, name, devices, backend)
        out: list[Any] = []

        def member(*shards: Any) -> Any:
            own = [
                x if axis is None else squeeze(x, (axis,))
                for x, axis in zip(shards, found, strict=True)
            ]
            mine, keywords = tree_unflatten(tree, own)
            rest = iter(mine)
            whole = [static[i] if i in static else next(rest) for i in range(len(args))]
            result = fun(*whole, **keywords)
            parts, result_tree = tree_flatten(result)
            places = broadcast_prefix(out_axes, result, **none)
            out[:] = [result_tree, places]
            split = [expand_dims(x, (0,)) for x, p in zip(parts, places) if p is not None]
            return split, [x for x, p in zip(parts, places) if p is None]

        in_specs = tuple(_spec(name, axis, aval_of(x)) for x, axis in zip(leaves, found))
        out_specs = (PartitionSpec(name), PartitionSpec())
        run = shard_map(member, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        split, whole = map(iter, run(*leaves))
        result_tree, places = out
        joined = [next(whole) if p is None else moveaxis(next(split), 0, p) for p in places]
        return tree_unflatten(result_tree, joined)

    program = jit(mapped_once, static_argnums=statics, donate_argnums=_numbers(donate_argnums))
    wraps(fun)(mapped_once)

    @wraps(fun)
    @api_boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if process_count() > 1:
            raise UnavailableOptionError(
                three_lines(
                    f"call of pmap({name_of(fun)}) at {current_source()}",
                    "pmap maps over the devices of one process, and there are several",
                    "use kiln.shard_map over a mesh of kiln.devices()",
                )
            )
        return program(*args, **kwargs)

    mapped.lower = program.lower  # type: ignore[attr-defined]
    mapped.trace = program.trace  # type: ignore[attr-defined]
    return mapped


def _alone(
    fun: Any, args: Any, kwargs: Any, static: dict[int, Any], axes: Any, out_axes: Any, name: Any
) -> Any:
    """Map over a single slice: the default device needs no mesh."""

    def partly(traced: Any, keywords: Any) -> Any:
        rest = iter(traced)
        return fun(
            *[static[i] if i in static else next(rest) for i in range(len(args))], **keywords
        )

    traced = tuple(x for i, x in enumerate(args) if i not in static)
    whole = vmap(partly, in_axes=(axes, 0), out_axes=out_axes, axis_name=name)
    return whole(traced, kwargs)


def _numbers(given: int | Iterable[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


def _spec(name: Any, axis: int | None, aval: ShapedArray) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    return PartitionSpec(*[None] * (axis % aval.ndim), name)


def _mapped_size(fun: Any, leaves: Sequence[Any], axes: Sequence[Any], wanted: int | None) -> int:
    mapped = [(aval_of(x), a) for x, a in zip(leaves, axes, strict=True) if a is not None]
    for aval, axis in mapped:
        if not -aval.ndim <= axis < aval.ndim:
            raise ValueError(
                three_lines(
                    f"pmap of {name_of(fun)} at {current_source()}",
                    f"pmap was requested to map its argument along axis {axis}, which implies that "
                    f"its rank should be at least {axis + 1}, but is only {aval.ndim}",
                    "give in_axes=None, or list it in static_broadcasted_argnums",
                )
            )
    sizes = {aval.shape[axis] for aval, axis in mapped}
    if wanted is not None:
        sizes.add(wanted)
    if len(sizes) == 1:
        return int(sizes.pop())
    raise ValueError(
        three_lines(
            f"pmap of {name_of(fun)} at {current_source()}",
            "pmap requires at least one argument with a mapped axis."
            if not sizes
            else f"pmap got inconsistent sizes for array axes to be mapped: {sorted(sizes)}",
            "give in_axes for which the mapped axes of all arguments have one size",
        )
    )


def _mesh(
    fun: Any, size: int, name: Any, devices: Sequence[Any] | None, backend: str | None
) -> Mesh:
    found = list(all_devices(backend) if devices is None else devices)
    if len(found) < size or (devices is not None and len(found) != size):
        raise ValueError(
            three_lines(
                f"pmap of {name_of(fun)} over {size} slices at {current_source()}",
                f"compiling computation that requires {size} logical devices, but only "
                f"{len(found)} XLA devices are available",
                f"set KILN_NUM_CPU_DEVICES={size}, or use vmap",
            )
        )
    return Mesh(np.array(found[:size], dtype=object), (name,))


@known_keywords
def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = INFER,
    out_axes: Any,
    axis_name: Any,
) -> Callable[..., Any]:
    """Map a function over one axis of the mesh in force: `shard_map` in terms of array axes.

    An entry of `in_axes` and `out_axes` is the array axis that `axis_name` shards, or None. If
    `axis_name` is Explicit, `in_axes` may be left out: the types of arguments say it.

    Raises: TypeError for other entries, or if `in_axes` is left out for another axis.
    Example:
        >>> with kiln.set_mesh(kiln.make_mesh((1,), ("i",))):
        ...     double = kiln.smap(lambda x: x * 2, in_axes=0, out_axes=0, axis_name="i")
        ...     kiln.jit(double)(jnp.arange(3))
        Array([0, 2, 4], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is not INFER and not all(isinstance(axis, int) for axis in tree_flatten(axes)[0]):
            raise TypeError(
                three_lines(
                    f"smap of {name_of(f)} with {what}={axes!r} at {current_source()}",
                    f"smap {what} must be an int, None, or a tuple of these",
                    f"write {what}=0",
                )
            )

    def specs(axes: Any) -> Any:
        return tree_map(
            lambda a: PartitionSpec() if a is None else PartitionSpec(*[None] * a, axis_name),
            axes,
            is_leaf=lambda a: a is None,
        )

    ins = INFER if in_axes is INFER else specs(in_axes)
    mapped = shard_map(f, in_specs=ins, out_specs=specs(out_axes), axis_names={axis_name})
    if in_axes is not INFER:
        return mapped
    fun = f

    @wraps(fun)
    @api_boundary
    def inferring(*args: Any) -> Any:
        mesh = options().mesh
        if mesh is not None and axis_name not in mesh.explicit_axes:
            raise TypeError(
                three_lines(
                    f"smap of {name_of(fun)} over {axis_name!r} at {current_source()}",
                    f"in_axes was not specified, and {axis_name!r} is not an Explicit axis of "
                    f"{mesh}",
                    "write in_axes=0",
                )
            )
        return mapped(*args)

    return inferring
