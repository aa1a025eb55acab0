"""Boxes around variables with metadata for each axis, above all how it is partitioned.

A box is a pytree node. Lifted transformations that add an axis to a variable notify its box.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from kiln import struct
from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, Sharding
from kiln.linen.errors import PartitioningUnspecifiedError
from kiln.ops.sharding import with_sharding_constraint

A = TypeVar("A")
Names = tuple[str | None, ...]
Params = Mapping[Any, Any]

PARTITION_NAME = "partition_name"


class AxisMetadata(abc.ABC, Generic[A]):
    """A box: a value, and metadata of each of its axes. Subclasses are pytree nodes.

    Removing an axis undoes adding it: `x.add_axis(i, p).remove_axis(i, p) == x`.
    """

    @abc.abstractmethod
    def unbox(self) -> A:
        """Return the value in this box; nested boxes are kept."""

    @abc.abstractmethod
    def replace_boxed(self, val: Any) -> Any:
        """Return a copy of the box with another value."""

    @abc.abstractmethod
    def add_axis(self, index: int, params: Params) -> Any:
        """Return the box with metadata for a new axis; `params` are the `metadata_params`."""

    @abc.abstractmethod
    def remove_axis(self, index: int, params: Params) -> Any:
        """Return the box without the metadata of an axis."""


def is_axis_metadata(val: Any) -> bool:
    """Tell whether a value is a box.

    `val` may be anything.
    """
    return isinstance(val, AxisMetadata)


def map_axis_meta(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the outermost boxes of a tree.

    `fn(box)` returns what takes the place of a box; other leaves stay.
    """
    return tree_map(
        lambda x: fn(x) if isinstance(x, AxisMetadata) else x, tree, is_leaf=is_axis_metadata
    )


def add_axis(tree: Any, index: int, params: Params) -> Any:
    """Add an axis to all boxes of a tree.

    `index` is its position, `params` are the metadata of the transformation, such as the axis's
    name.
    """
    return map_axis_meta(lambda box: box.add_axis(index, params), tree)


def remove_axis(tree: Any, index: int, params: Params) -> Any:
    """Remove an axis from all boxes of a tree.

    `index` is its position, `params` are the metadata of the transformation, such as the axis's
    name.
    """
    return map_axis_meta(lambda box: box.remove_axis(index, params), tree)


def unbox(tree: Any) -> Any:
    """Replace the boxes of a tree, also nested ones, by their values."""
    return map_axis_meta(lambda box: unbox(box.unbox()), tree)


def replace_boxed(tree: Any, updates: Any) -> Any:
    """Return the leaves of `updates`, in boxes where `tree` has boxes."""

    def put(old: Any, new: Any) -> Any:
        if isinstance(old, AxisMetadata):
            return old.replace_boxed(replace_boxed(old.unbox(), new))
        return new

    return tree_map(put, tree, updates, is_leaf=is_axis_metadata)


class Partitioned(struct.PyTreeNode, AxisMetadata[A]):
    """A box that names, for each axis of a value, the mesh axis that shards it, or None.

    With a mesh, or inside `with mesh:`, unboxing constrains the value to be sharded accordingly.

    Example:
        >>> box = linen.Partitioned(jnp.ones((2, 3)), names=("rows", None))
        >>> box.get_partition_spec()
        P('rows', None)
    """

    value: Any
    names: Names = struct.field(pytree_node=False)
    mesh: Mesh | None = struct.field(default=None, pytree_node=False)

    def unbox(self, apply_constraint: bool = True) -> Any:
        """Return the value, constrained to be sharded as the names say.

        Example:
            >>> linen.unbox({"w": linen.Partitioned(jnp.ones(2), ("rows",))})
            {'w': Array([1., 1.], dtype=float32)}
        """
        if not apply_constraint or (self.mesh is None and options().mesh is None):
            return self.value
        spec = self.get_partition_spec()
        return with_sharding_constraint(
            self.value, spec if self.mesh is None else NamedSharding(self.mesh, spec)
        )

    def replace_boxed(self, val: Any) -> Any:
        """Return the box with another value."""
        return self.replace(value=val)

    def add_axis(self, index: int, params: Params) -> Any:
        """Return the box with the name `params["partition_name"]` at `index`.

        Raises: PartitioningUnspecifiedError without such an entry.
        """
        name = self._partition_name(params)
        padded = self.names + (None,) * (index - len(self.names))
        return self.replace(names=(*padded[:index], name, *padded[index:]))

    def remove_axis(self, index: int, params: Params) -> Any:
        """Return the box without the name at `index`.

        Raises: PartitioningUnspecifiedError as `add_axis`, ValueError if another name is there.
        """
        name = self._partition_name(params)
        rest = list(self.names)
        found = rest.pop(index) if -len(rest) <= index < len(rest) else None
        if found != name:
            raise ValueError(
                three_lines(
                    f"{type(self).__name__} with the names {self.names} loses axis {index}"
                    f" at {current_source()}",
                    f"the axis is called {found!r} there, metadata_params say {name!r}",
                    "give metadata_params the name under which the axis was added",
                )
            )
        return self.replace(names=tuple(rest))

    def _partition_name(self, params: Params) -> Any:
        if PARTITION_NAME in params:
            return params[PARTITION_NAME]
        raise PartitioningUnspecifiedError(self)

    def get_partition_spec(self) -> PartitionSpec:
        """Return the names as a PartitionSpec."""
        return PartitionSpec(*self.names)

    def get_sharding(self, mesh: Mesh) -> Sharding:
        """Return the names as a sharding of a mesh."""
        return NamedSharding(mesh, self.get_partition_spec())


def with_partitioning(
    fn: Callable[..., Any], names: Names, mesh: Mesh | None = None
) -> Callable[..., Partitioned[Any]]:
    """Return an initializer whose result is boxed in `Partitioned` with these names.

    `fn` is an initializer; `mesh` is kept in the box.

    Example:
        >>> kernel_init = linen.with_partitioning(linen.initializers.ones, (None, "columns"))
        >>> layer = linen.Dense(4, kernel_init=kernel_init)
        >>> variables = layer.init(random.key(0), jnp.ones((2, 3)))
        >>> linen.get_partition_spec(variables)["params"]["kernel"]
        P(None, 'columns')
    """

    @functools.wraps(fn)
    def boxed(*args: Any, **kwargs: Any) -> Partitioned[Any]:
        return Partitioned(fn(*args, **kwargs), names, mesh=mesh)

    return boxed


def _spec_of(x: Any) -> PartitionSpec | None:
    if hasattr(x, "get_partition_spec"):
        spec: PartitionSpec = x.get_partition_spec()
        return spec
    return PartitionSpec() if hasattr(x, "shape") else None


def get_partition_spec(tree: Any) -> Any:
    """Return the PartitionSpec of each box; `P()` for unboxed arrays, None for other leaves.

    Example:
        >>> tree = {"w": linen.Partitioned(jnp.ones((2, 3)), ("rows", None)), "b": jnp.ones(3)}
        >>> linen.get_partition_spec(tree)
        {'b': P(), 'w': P('rows', None)}
    """
    return tree_map(_spec_of, tree, is_leaf=is_axis_metadata)


def get_sharding(tree: Any, mesh: Mesh) -> Any:
    """Return the sharding of each box on a mesh; arrays without a box are on all devices.

    Example:
        >>> mesh = kiln.make_mesh((1,), ("rows",))
        >>> box = linen.Partitioned(jnp.ones((2, 3)), ("rows", None))
        >>> linen.get_sharding({"w": box}, mesh)["w"].spec
        P('rows', None)
    """

    def sharding_of(x: Any) -> Sharding | None:
        if hasattr(x, "get_sharding"):
            found: Sharding = x.get_sharding(mesh)
            return found
        spec = _spec_of(x)
        return None if spec is None else NamedSharding(mesh, spec)

    return tree_map(sharding_of, tree, is_leaf=is_axis_metadata)
