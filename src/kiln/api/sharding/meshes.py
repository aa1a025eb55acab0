"""The mesh in force, and functions that place arrays by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.options.config import options, override
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_unflatten
from kiln.core.trace import Tracer, aval_of, state
from kiln.execution.compilation import as_array
from kiln.ir.shardings.abstract_mesh import EMPTY, AbstractMesh, AxisType
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, SingleDeviceSharding
from kiln.ir.types import ShardedArray
from kiln.ops.sharding import cast_to, put, resolved


class set_mesh(override):
    """Set the mesh that bare PartitionSpecs refer to; as a context, until it ends.

    Programs and operations none of whose arguments were placed run on all its devices. None unsets
    it. The setting is the thread's.

    Raises: ValueError for anything but a Mesh, and inside a traced function.
    Example:
        >>> with kiln.set_mesh(kiln.make_mesh((1,), ("i",))):
        ...     kiln.jit(lambda x: lax.with_sharding_constraint(x, kiln.P("i")))(jnp.ones(2))
        Array([1., 1.], dtype=float32)
        >>> kiln.sharding.get_mesh().empty
        True
    """

    def __new__(cls, mesh: Mesh | None) -> Self:
        """Set the mesh."""
        if isinstance(mesh, Mesh) and mesh.empty:
            mesh = None
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(
                three_lines(
                    f"set_mesh({mesh!r:.80}) at {current_source()}",
                    f"Expected mesh of type `jax.sharding.Mesh`, got {type(mesh)}",
                    "write set_mesh(kiln.make_mesh((n,), ('x',)))",
                )
            )
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                three_lines(
                    f"set_mesh({mesh}) at {current_source()}",
                    f"the mesh contains manual axes {mesh.manual_axes}, which only shard_map makes",
                    "make the mesh with Auto or Explicit axes",
                )
            )
        if state.trace is not state.root:
            raise ValueError(
                three_lines(
                    f"set_mesh at {current_source()}",
                    "`set_mesh` can only be used outside of `jit`",
                    "set the mesh before the call of the jitted function",
                )
            )
        several = mesh is not None and mesh.size > 1
        made = super().__new__(cls, mesh=mesh, default_mesh=mesh if several else None)
        override.__enter__(made)
        return made

    def __enter__(self) -> None:
        # The constructor has set the mesh: it may be called without `with`.
        return None


def get_mesh() -> Mesh | AbstractMesh:
    """Return the mesh in force; an empty one without devices if there is none."""
    found = options().mesh
    return Mesh(np.empty((), dtype=object), ()) if found is None else found


def get_abstract_mesh() -> AbstractMesh:
    """Return the axes of the mesh in force; inside `shard_map`, its axes are Manual."""
    found = options().mesh
    mesh = EMPTY if found is None else found.abstract_mesh
    manual = {name: AxisType.Manual for name, _, kind in state.axes if isinstance(kind, bool)}
    return mesh.update_axis_types(manual) if manual else mesh


class use_abstract_mesh(override):
    """Put a mesh without devices in force, until the context ends.

    If a mesh is in force already, its devices are arranged along the axes of the new one.

    Raises: ValueError for anything but an AbstractMesh, and for another size than that of the mesh
        in force.
    """

    def __new__(cls, mesh: AbstractMesh) -> Self:
        """Check the mesh."""
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                three_lines(
                    f"use_abstract_mesh({mesh!r:.80}) at {current_source()}",
                    f"Expected mesh of type `jax.sharding.AbstractMesh`, got {type(mesh)}",
                    "write use_abstract_mesh(mesh.abstract_mesh)",
                )
            )
        found: Mesh | AbstractMesh | None = None if mesh.empty else mesh
        here = options().mesh
        if found is not None and isinstance(here, Mesh):
            if here.size != mesh.size:
                raise ValueError(
                    three_lines(
                        f"use_abstract_mesh({mesh}) at {current_source()}",
                        "use_abstract_mesh cannot change the size of the mesh in force, which is "
                        f"{here}",
                        f"use a mesh with {here.size} places",
                    )
                )
            found = Mesh(here.devices.reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
        return super().__new__(cls, mesh=found)


@api_boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """Return a pytree of arrays, sharded as given; values do not change.

    `out_shardings` is a pytree prefix of shardings and PartitionSpecs. Inside a traced function it
    is a constraint.

    Raises: ValueError for an array that cannot be sharded this way; RuntimeError for a
        PartitionSpec without a mesh.
    Example:
        >>> mesh = kiln.make_mesh((1,), ("i",), axis_types=(kiln.sharding.AxisType.Explicit,))
        >>> sharding = kiln.NamedSharding(mesh, kiln.P("i"))
        >>> kiln.typeof(kiln.reshard(jnp.ones(4), sharding)).sharding.spec
        P('i')
        >>> kiln.reshard(jnp.arange(4), kiln.NamedSharding(mesh, kiln.P())).tolist()
        [0, 1, 2, 3]
    """
    leaves, tree = tree_flatten(xs)
    places = broadcast_prefix(out_shardings, xs, is_leaf=lambda s: s is None)
    arrays = [leaf if isinstance(leaf, Tracer) else as_array(leaf) for leaf in leaves]
    return tree_unflatten(tree, [_resharded(x, p) for x, p in zip(arrays, places, strict=True)])


def _resharded(x: Any, place: Any) -> Any:
    if isinstance(place, PartitionSpec):
        place = resolved(place, "reshard")
    if isinstance(place, NamedSharding) and place.is_explicit:
        place = place.for_rank(len(aval_of(x).shape))
    return put(x, place)


def auto_axes(
    fun: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None
) -> Callable[..., Any]:
    """Return a function inside which the compiler decides how arrays are sharded.

    Its results are sharded as `out_sharding`, given here or at the call. It applies to all axes of
    the mesh, or to those that `axes` names.

    Raises: TypeError if the mesh has Explicit axes and no `out_sharding` is given.
    """
    if fun is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    given, sharding = fun, out_sharding

    @functools.wraps(given, updated=())
    def decorated(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = sharding if out_sharding is None else out_sharding
        mesh = _mesh_for((args, kwargs, wanted))
        if mesh is None:
            return given(*args, **kwargs)
        if not mesh.is_explicit or not _named(axes, mesh.explicit_axes):
            found = given(*args, **kwargs)
            return found if wanted is None else reshard(found, wanted)
        if wanted is None:
            raise TypeError(
                three_lines(
                    f"call of {name_of(given)} at {current_source()}",
                    "Missing required keyword argument: 'out_sharding', which auto_axes needs",
                    "write auto_axes(function, out_sharding=P(...)), or pass out_sharding=P(...)",
                )
            )
        inner = _with_kind(mesh, AxisType.Auto, axes)
        with override(mesh=inner):
            found = given(*_all_over(inner, args), **_all_over(inner, kwargs))
        return reshard(found, wanted)

    return decorated


def explicit_axes(
    fun: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = None
) -> Callable[..., Any]:
    """Return a function inside which types say how arrays are sharded.

    Its arguments are sharded as `in_sharding`, given here or at the call. It applies to all axes of
    the mesh, or to those that `axes` names.
    """
    if fun is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    given, shardings = fun, in_sharding

    @functools.wraps(given, updated=())
    def decorated(*args: Any, in_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = shardings if in_sharding is None else in_sharding
        mesh = _mesh_for((args, kwargs, wanted))
        if mesh is None or not _named(axes, mesh.auto_axes):
            return given(*(args if wanted is None else reshard(args, wanted)), **kwargs)
        with override(mesh=_with_kind(mesh, AxisType.Explicit, axes)):
            found = given(*(args if wanted is None else reshard(args, wanted)), **kwargs)
        return _all_over(mesh, found)

    return decorated


def _mesh_for(tree: Any) -> Mesh | AbstractMesh | None:
    """Return the mesh in force, or that of the first array or sharding that has one."""
    found: Mesh | AbstractMesh | None = options().mesh
    if found is not None:
        return found
    for leaf in tree_flatten(tree)[0]:
        if isinstance(leaf, NamedSharding):
            return leaf.mesh  # type: ignore[no-any-return]
        aval = getattr(leaf, "aval", None)
        if type(aval) is ShardedArray:
            return aval.placing.mesh  # type: ignore[no-any-return]
    return None


def _named(axes: Any, names: Sequence[Any]) -> Sequence[Any]:
    """Return the names that `axes` selects; all if it is None."""
    if axes is None:
        return names
    chosen = axes if isinstance(axes, (tuple, list, set, frozenset)) else (axes,)
    return [name for name in names if name in chosen]


def _with_kind(mesh: Mesh | AbstractMesh, kind: AxisType, axes: Any) -> Mesh | AbstractMesh:
    chosen = _named(axes, mesh.axis_names)
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return mesh.update(axis_types=tuple(kind if name in chosen else each for name, each in pairs))


def _all_over(mesh: Mesh | AbstractMesh, tree: Any) -> Any:
    """Return a tree of arrays whose types hold shardings along the mesh's Explicit axes."""
    leaves, treedef = tree_flatten(tree)
    return tree_unflatten(treedef, [_over(mesh, x) if hasattr(x, "aval") else x for x in leaves])


def _over(mesh: Mesh | AbstractMesh, x: Any) -> Any:
    if isinstance(x, Tracer):
        return cast_to(x, mesh)
    place = x.sharding
    if not place.is_explicit or place.mesh == mesh:
        return x
    return put(x, place.update(mesh=place.mesh.update(axis_types=mesh.axis_types)))


def make_single_device_sharding(
    device: Any, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """Return the sharding that puts the whole array on one device.

    `memory_kind` is the kind of memory of the device; None is its default.
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
