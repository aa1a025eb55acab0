"""Shardings of values inside a program.

A constraint is an identity that the partitioner obeys. Two identities change what types hold: after
a `reshard` another sharding, after a `mesh_cast` none, so that the compiler decides, as inside
`auto_axes`. A `reshard` becomes a constraint when the program is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kiln.base.errors import three_lines
from kiln.base.lazy import resharding
from kiln.base.options.config import options
from kiln.base.process.identity import process_count
from kiln.base.source import current_source
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_unflatten
from kiln.core.arrays.array import ConcreteArray, with_type
from kiln.core.arrays.placement import placed, spread
from kiln.core.arrays.shards import is_all_here, require_part
from kiln.core.arrays.transfers import moved
from kiln.core.engines.engine import default_engine
from kiln.core.staging import StagingTrace
from kiln.core.trace import Tracer, aval_of
from kiln.execution.compilation import as_array
from kiln.execution.programs import set_constraint
from kiln.ir.sharded_types import is_same_mesh
from kiln.ir.shardings.abstract_mesh import AbstractMesh
from kiln.ir.shardings.formats import Format, Layout, require_rows
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    fitted,
    require_fit,
)
from kiln.ir.types import ShapedArray, ShardedArray, dual, plain, typed
from kiln.ops.linear_op import LinearOp

T = TypeVar("T")


class ShardingConstraint(LinearOp):
    """Return the operand, sharded as `sharding` says.

    Inside programs a dimension that cannot be split into equal parts is left whole. If all axes of
    the mesh are Explicit, it checks that the type says so.
    """

    name = "sharding_constraint"
    on_keys = "move"
    infers_shardings = True

    def infer(self, x: Any, *, sharding: Sharding) -> ShapedArray:
        self._require_fit(x, fitted(sharding, x.shape))
        _require_type(x, sharding)
        return x

    def _require_fit(self, x: ShapedArray, sharding: Sharding) -> None:
        asked = f"with_sharding_constraint of {x} by {sharding} at {current_source()}"
        require_fit(
            sharding, x.shape, asked, "One of with_sharding_constraint arguments: Sharding "
        )

    def numpy(self, x: Any, *, sharding: Sharding) -> Any:
        return x

    def evaluate(self, x: Any, *, sharding: Sharding) -> Any:
        self._require_fit(aval_of(x), sharding)
        _require_type(aval_of(x), sharding)
        return _placed(as_array(x), _closed(sharding))

    def transpose(self, ct: Any, x: Any, *, sharding: Sharding) -> Any:
        return [self.bind(ct, sharding=sharding)]

    def batch_over(
        self, axis: Any, xs: Sequence[Any], axes: Sequence[Any], /, *, sharding: Sharding
    ) -> Any:
        if not isinstance(sharding, NamedSharding):
            return self.bind(*xs, sharding=sharding), axes[0]
        at = axes[0]
        ndim = len(aval_of(xs[0]).shape) - 1
        entries = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
        is_explicit = sharding.mesh.are_all_axes_explicit
        if is_explicit or axis.spmd is None:
            entries.insert(at, aval_of(xs[0]).split[at] if is_explicit else UNCONSTRAINED)
        else:
            _require_apart(axis.spmd, sharding)
            entries.insert(at, axis.spmd)
        stacked = NamedSharding(sharding.mesh, PartitionSpec(*entries))
        return self.bind(*xs, sharding=stacked), at


def _require_apart(spmd: Any, sharding: NamedSharding) -> None:
    taken = {name for entry in sharding.spec for name in axes_of(entry)}
    if taken.isdisjoint(axes_of(spmd)):
        return
    raise ValueError(
        three_lines(
            f"with_sharding_constraint by {sharding.spec} under vmap(spmd_axis_name={spmd!r}) at "
            f"{current_source()}",
            f"vmap spmd_axis_name {spmd!r} cannot appear in the sharding constraint, got spec "
            f"{sharding.spec}",
            "give the mapped axis another mesh axis, or leave it out of the constraint",
        )
    )


def _require_type(x: ShapedArray, sharding: Sharding) -> None:
    if not (isinstance(sharding, NamedSharding) and sharding.mesh.are_all_axes_explicit):
        return
    if UNCONSTRAINED in sharding.spec or typed(x, sharding).split == x.split:
        return
    raise AssertionError(
        three_lines(
            f"with_sharding_constraint of {x} by {sharding.spec} at {current_source()}",
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type "
            f"`Explicit`. The array sharding: {PartitionSpec(*x.split)} did not match the sharding "
            f"provided: {sharding.spec}",
            f"change the sharding: kiln.reshard(x, {sharding.spec})",
        )
    )


sharding_constraint_p = ShardingConstraint()


def _closed(sharding: Sharding) -> Sharding:
    if not isinstance(sharding, NamedSharding):
        return sharding
    entries = [None if entry is UNCONSTRAINED else entry for entry in sharding.spec]
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def with_sharding_constraint(x: T, shardings: Any) -> T:
    """Return a pytree of arrays, sharded as given; `shardings` is one sharding, or a pytree prefix.

    A PartitionSpec refers to the mesh of the surrounding `with mesh:`; None leaves an array as it
    is. Values do not change.

    Raises: ValueError for an array that cannot be sharded this way (inside jit only if it has too
        few dimensions; indivisible ones are left whole there), RuntimeError for a PartitionSpec
        without a mesh, TypeError if it is not a sharding, AssertionError if all axes of the mesh
        are Explicit and the array's type says something else.
    Example:
        >>> sharding = kiln.NamedSharding(kiln.make_mesh((1,), ("i",)), kiln.P("i"))
        >>> kiln.jit(lambda x: lax.with_sharding_constraint(x * 2, sharding))(jnp.arange(4))
        Array([0, 2, 4, 6], dtype=int32)
    """
    asked = "with_sharding_constraint"
    leaves, tree = tree_flatten(x)
    places = broadcast_prefix(shardings, x, is_leaf=lambda s: s is None)
    found = [without_layout(s, asked) for s in places]
    return tree_unflatten(
        tree,
        [
            leaf
            if s is None or says_nothing(s)
            else sharding_constraint_p.bind(leaf, sharding=_constraining(leaf, s))
            for leaf, s in zip(leaves, found, strict=True)
        ],
    )


def _constraining(x: Any, sharding: Any) -> Sharding:
    """Return the sharding that constrains a value; a mesh without devices stands for the value's.

    Raises: ValueError for an array over another mesh, TypeError for one over none; what `resolved`
        raises.
    """
    asked = "with_sharding_constraint"
    over = sharding.mesh if isinstance(sharding, NamedSharding) else None
    if not isinstance(over, AbstractMesh) or options().mesh is not None:
        return resolved(sharding, asked)
    if isinstance(x, Tracer):
        # The program is compiled for the devices of its arguments.
        return sharding
    wrong: str
    kind: type[Exception] = ValueError
    place = x.sharding if isinstance(x, ConcreteArray) else None
    if place is None:
        wrong = (
            "with_sharding_constraint by a mesh without devices requires the input passed should "
            f"be a `jax.Array`, got {type(x)}"
        )
    elif not isinstance(place, NamedSharding):
        kind = TypeError
        wrong = f"The sharding on the input must be a `NamedSharding`, got {place}"
    elif place.mesh.shape_tuple == over.shape_tuple:
        return sharding.update(mesh=place.mesh)
    else:
        wrong = (
            f"Mesh shape of the input {place.mesh.shape_tuple} does not match the mesh shape of "
            f"the target sharding {over.shape_tuple}"
        )
    raise kind(
        three_lines(
            f"{asked} of {type(x).__name__} by {sharding} at {current_source()}",
            wrong,
            "give a NamedSharding over a mesh with devices",
        )
    )


def put(x: Any, place: Any) -> Any:
    """Return an array on a device or sharded, committed; unchanged if the place is None.

    Raises: TypeError for another kind of place, ValueError for an array that cannot be sharded this
        way.
    """
    if isinstance(place, Format) and place.layout is Layout.AUTO:
        raise ValueError(
            three_lines(
                f"device_put of {aval_of(x)} with {place} at {current_source()}",
                "sharding and layout should be concrete: the compiler chooses none for an array "
                "that is there",
                "leave the layout out: Format(sharding=...)",
            )
        )
    place = without_layout(place, "device_put")
    if place is None or says_nothing(place):
        return x
    if isinstance(place, (Sharding, PartitionSpec)):
        sharding = resolved(place, "device_put")
    else:
        sharding = SingleDeviceSharding(checked_device(place, "device_put"))
    if isinstance(x, Tracer):
        if sharding.is_explicit:
            return reshard_p.bind(x, sharding=sharding)
        x = auto(x)
        return sharding_constraint_p.bind(x, sharding=sharding) if sharding.num_devices > 1 else x
    if options().guards_transfers and isinstance(x, ConcreteArray):
        moved(x, sharding)
    memory = default_engine().memory
    if sharding.num_devices > 1 and memory.places_arrays and process_count() == 1:
        made = spread(x, memory, sharding)
        if made is not None:
            return made
    if isinstance(x, ConcreteArray) and x.committed and x.sharding == sharding:
        return x
    return _placed(as_array(x), sharding)


def _placed(x: ConcreteArray, sharding: Sharding) -> ConcreteArray:
    memory = default_engine().memory
    if not memory.places_arrays:
        return x
    if process_count() > 1:
        require_part(sharding, f"placing an array {x.aval}")
        if _needs_others(x, sharding):
            asked = f"array {x.aval} placed by {sharding} at {current_source()}"
            require_fit(sharding, x.shape, asked)
            return resharding.resharded(x, sharding)
    return placed(x, memory, sharding)


def _needs_others(x: ConcreteArray, sharding: Sharding) -> bool:
    """Tell whether only a program of several processes can give an array a sharding."""
    have = x.sharding
    if have.is_fully_addressable or have.is_equivalent_to(sharding, x.ndim):
        return False
    # A process that holds the whole array may also move it elsewhere itself.
    return sharding.device_set == have.device_set or not is_all_here(have, x.ndim)


def put_by_default(x: Any) -> Any:
    """Put a new array, made of host data, on all devices of the mesh that is set, if one is."""
    mesh = options().default_mesh
    if mesh is None or type(x) is not ConcreteArray:
        return x
    return _placed(x, NamedSharding(mesh, PartitionSpec()))


def put_like(x: Any, other: Any) -> Any:
    """Put a new array where a committed one is, if its shape can be sharded that way."""
    if isinstance(x, Tracer) or not isinstance(other, ConcreteArray) or not other.committed:
        return x
    place = other.sharding
    return put(x, place) if place.num_devices == 1 or aval_of(x).shape == other.shape else x


def checked_device(device: Any, asked: str) -> Any:
    """Return a device of this process.

    Raises: TypeError for anything else.
    """
    here = list(default_engine().memory.devices())
    if device not in here:
        raise TypeError(
            three_lines(
                f"{asked} at {current_source()}",
                f"{device!r} of type {type(device).__name__} is not a device of this process",
                f"use one of kiln.devices(): {here}",
            )
        )
    return device


_ASKING = {"in_shardings": "pjit", "out_shardings": "pjit"}
"""The function that needs a mesh for a keyword's specs, if the keyword has another name."""


def resolved(sharding: Any, option: str) -> Sharding:
    """Resolve a sharding to one with devices.

    Raises: TypeError if it is not a sharding, RuntimeError for a PartitionSpec without a mesh.
    """
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        return _on_devices(sharding, option)
    if isinstance(sharding, Sharding):
        return sharding
    if not isinstance(sharding, PartitionSpec):
        raise TypeError(
            three_lines(
                f"{option}={sharding!r} at {current_source()}",
                f"{option} must hold shardings, PartitionSpecs and None, got {sharding!r} of type "
                f"{type(sharding).__name__}",
                "write NamedSharding(mesh, PartitionSpec(...))",
            )
        )
    mesh = options().mesh
    if mesh is None:
        raise RuntimeError(
            three_lines(
                f"{option}={sharding} at {current_source()}",
                f"{_ASKING.get(option, option)} requires a non-empty mesh in context: a "
                "PartitionSpec needs a mesh, and there is none here",
                f"write NamedSharding(mesh, {sharding}), or enter the mesh: with mesh: ...",
            )
        )
    names = [name for entry in sharding for name in axes_of(entry)]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(
            three_lines(
                f"{option}={sharding} at {current_source()}",
                f"A single {option} specification can map every mesh axis to at most one "
                f"positional dimension, but {sharding} has duplicate entries for `{repeated[0]}`",
                "name each axis once",
            )
        )
    return NamedSharding(mesh, sharding)


def without_layout(place: Any, asked: str) -> Any:
    """Return the sharding of a format; anything else as it is.

    Raises: ValueError for a layout that arrays of kiln cannot have.
    """
    if not isinstance(place, Format):
        return place
    require_rows(place.layout, asked)
    return place.sharding


def says_nothing(place: Any) -> bool:
    """Tell whether a sharding specifies nothing: it is over a mesh without axes."""
    return isinstance(place, NamedSharding) and place.mesh.empty


def _on_devices(sharding: NamedSharding, option: str) -> NamedSharding:
    mesh = options().mesh
    if isinstance(mesh, Mesh) and mesh.shape_tuple == sharding.mesh.shape_tuple:
        return sharding.update(mesh=mesh)
    raise RuntimeError(
        three_lines(
            f"{option}={sharding} at {current_source()}",
            f"the mesh of {option} has no devices, and the mesh here is {mesh}",
            "set a mesh with these axes: with kiln.set_mesh(mesh): ...",
        )
    )


class TypeOfSharding(LinearOp):
    """An identity whose result tells another sharding by its type."""

    infers_shardings = True

    def stage(self, trace: StagingTrace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record the equation; from here on, types in the program hold shardings."""
        atoms = [trace.atom(x) for x in args]
        trace.has_sharding = True
        inferred = self.infer(*[atom.aval for atom in atoms], **params)
        return trace.record(self, atoms, inferred, params)

    def numpy(self, x: Any, **params: Any) -> Any:
        return x

    def expand(self, x: Any, **params: Any) -> Any:
        return x


class Reshard(TypeOfSharding):
    """Shard the operand as `sharding` says."""

    name = "reshard"

    def infer(self, x: Any, *, sharding: NamedSharding) -> ShapedArray:
        return typed(x, sharding)

    def evaluate(self, x: Any, *, sharding: NamedSharding) -> Any:
        memory = default_engine().memory
        array = as_array(x)
        return placed(array, memory, sharding) if memory.places_arrays else array

    def transpose(self, ct: Any, x: Any, *, sharding: NamedSharding) -> Any:
        return [retyped(ct, dual(x.aval))]

    def batch_over(
        self, axis: Any, xs: Sequence[Any], axes: Sequence[Any], /, *, sharding: NamedSharding
    ) -> Any:
        (x,), (at,) = xs, axes
        aval = aval_of(x)
        entries = [*sharding.spec, *[None] * (aval.ndim - 1 - len(sharding.spec))]
        # If the compiler decides by now, the type no longer holds what splits the mapped axis.
        entries.insert(at, aval.split[at] if axis.split is None else axis.split[1])
        stacked = sharding.update(spec=sharding.spec.update(partitions=entries))
        return self.bind(x, sharding=stacked), at


class MeshCast(TypeOfSharding):
    """Make the type hold shardings only along Explicit axes of `mesh`, the same mesh otherwise.

    Without such axes it tells none: from here on the compiler decides.
    """

    name = "mesh_cast"

    def infer(self, x: Any, *, mesh: Any = None) -> ShapedArray:
        return over_mesh(x, mesh)

    def evaluate(self, x: Any, *, mesh: Any = None) -> Any:
        return with_type(x, over_mesh(x.aval, mesh))

    def transpose(self, ct: Any, x: Any, *, mesh: Any = None) -> Any:
        return [retyped(ct, dual(x.aval))]

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], *, mesh: Any = None) -> Any:
        return self.bind(*xs, mesh=mesh), axes[0]


def over_mesh(aval: Any, mesh: Any) -> Any:
    """Return a type that holds only the sharding along the Explicit axes of a mesh."""
    if mesh is None or type(aval) is not ShardedArray:
        return plain(aval)
    return typed(aval, aval.placing.update(mesh=mesh))


reshard_p = Reshard()
mesh_cast_p = MeshCast()
set_constraint(reshard_p)


def auto(x: Any) -> Any:
    """Return a value whose type holds no sharding; the same one if it already holds none."""
    return mesh_cast_p.bind(x) if type(aval_of(x)) is ShardedArray else x


def cast_to(x: Any, mesh: Any) -> Any:
    """Return a value whose type holds only the sharding along the Explicit axes of a mesh."""
    aval = aval_of(x)
    return x if over_mesh(aval, mesh) == aval else mesh_cast_p.bind(x, mesh=mesh)


def retyped(x: Any, aval: ShapedArray) -> Any:
    """Return a value whose type holds the sharding of another type."""
    here = aval_of(x)
    if here.split == aval.split and here.sums == aval.sums:
        if type(here) is not ShardedArray or type(aval) is not ShardedArray:
            return x
        if is_same_mesh(here.placing.mesh, aval.placing.mesh):
            return x
    if type(aval) is ShardedArray:
        return reshard_p.bind(x, sharding=aval.placing)
    return auto(x)
