"""Variables with logical axis names, kept in collections of their own (`params_axes`).

This is the older of Flax's two ways; boxes (`with_partitioning`, `with_logical_partitioning`) are
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln import struct
from kiln.base.tree import tree_map
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.linen.errors import LinenError
from kiln.linen.frozen_dict import FrozenDict, freeze, unfreeze
from kiln.linen.scopes.context import context
from kiln.linen.scopes.filters import CollectionFilter, union_filters
from kiln.linen.scopes.scope import Scope, Variable
from kiln.linen.spmd import RulesFallback as RulesFallback
from kiln.linen.spmd import get_logical_axis_rules as get_axis_rules
from kiln.linen.spmd import is_logical
from kiln.linen.spmd import logical_axis_rules as axis_rules
from kiln.linen.spmd import logical_to_mesh as logical_to_mesh
from kiln.linen.spmd import logical_to_mesh_axes as logical_to_mesh_axes
from kiln.linen.spmd import set_logical_axis_rules as set_axis_rules
from kiln.linen.spmd import with_logical_constraint as with_sharding_constraint
from kiln.linen.transforms import map_variables
from kiln.linen.transforms import remat as remat
from kiln.linen.transforms.axes import scan, vmap

__all__ = [
    "AxisMetadata",
    "PartitionedVariable",
    "RulesFallback",
    "axis_rules",
    "get_axis_names",
    "get_axis_rules",
    "logical_to_mesh",
    "logical_to_mesh_axes",
    "param_with_axes",
    "remat",
    "scan_with_axes",
    "set_axis_rules",
    "variable_with_axes",
    "vmap_with_axes",
    "with_sharding_constraint",
]


@struct.dataclass
class AxisMetadata:
    """The logical names of a variable's axes: a tuple, or a tree of tuples."""

    names: Any = struct.field(pytree_node=False)


def _kept(before: Any, sown: AxisMetadata) -> AxisMetadata:
    if isinstance(before, AxisMetadata) and before != sown:
        raise ValueError(
            f"If axis names are sown twice, expected them to match. Got {before} and {sown}."
        )
    return sown


def _running(module: Any) -> Any:
    found = context.modules[-1] if module is None else module
    if found is None:
        raise LinenError(
            "a variable with axes outside of any module",
            "no method of a module is running",
            "pass module=, or call it in a method",
        )
    return found


def param_with_axes(
    name: str,
    init_fn: Callable[..., Any],
    *init_args: Any,
    axes: Any = None,
    module: Any = None,
    **init_kwargs: Any,
) -> Any:
    """Return a parameter of the running module, or of `module`, constrained by its logical axes.

    Their names are stored in the collection `params_axes`.
    """
    module = _running(module)
    value = module.param(name, init_fn, *init_args, **init_kwargs)
    if axes is None:
        return value
    value = with_sharding_constraint(value, _names(axes))
    module.sow("params_axes", f"{name}_axes", AxisMetadata(axes), reduce_fn=_kept)
    return value


def _names(axes: Any) -> Any:
    return PartitionSpec(*axes) if is_logical(axes) else axes


class PartitionedVariable(Variable[Any]):
    """A variable whose values are constrained by its logical axes, when read and when written."""

    __slots__ = ("axes", "fallback")

    def __init__(
        self,
        scope: Scope,
        collection: str,
        name: str,
        axes: Any = None,
        fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
    ) -> None:
        super().__init__(scope, collection, name, unbox=False)
        self.axes = axes
        self.fallback = fallback

    def _constrained(self, value: Any) -> Any:
        if self.axes is None:
            return value
        return with_sharding_constraint(value, self.axes, fallback=self.fallback)

    @property
    def value(self) -> Any:
        """The current value, constrained."""
        return self._constrained(self.scope.get_variable(self.collection, self.name))

    @value.setter
    def value(self, value: Any) -> None:
        self.scope.put_variable(self.collection, self.name, self._constrained(value))


def variable_with_axes(
    collection: str,
    name: str,
    init_fn: Callable[..., Any],
    *init_args: Any,
    axes: Any = None,
    module: Any = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
    **init_kwargs: Any,
) -> PartitionedVariable:
    """Return a variable of the running module, or of `module`, constrained by its logical axes.

    Their names are stored in the collection `COLLECTION_axes`.
    """
    module = _running(module)
    module.variable(collection, name, init_fn, *init_args, unbox=False, **init_kwargs)
    if axes is not None:
        axes_of = AxisMetadata(axes)
        module.sow(f"{collection}_axes", f"{name}_axes", axes_of, reduce_fn=_kept)
    return PartitionedVariable(module.scope, collection, name, axes, fallback)


def get_axis_names(axes_metadata: Any) -> FrozenDict[str, Any]:
    """Return the names in a collection of axes as PartitionSpecs, by the variables' names.

    `axes_metadata` is a nested dict; the suffix `_axes` is removed from names.
    """

    def spec(names: Any) -> Any:
        return None if names is None else PartitionSpec(*names)

    def named(tree: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in tree.items():
            if isinstance(value, AxisMetadata):
                found[name.removesuffix("_axes")] = tree_map(spec, value.names, is_leaf=is_logical)
            else:
                found[name] = named(value)
        return found

    return freeze(named(unfreeze(axes_metadata)))


def _with_named_axis(target: Any, axis: Any, axis_name: Any, collection: str) -> Any:
    """Lift a target so that names stored outside have one more axis than those seen inside."""
    index = getattr(axis, "axis", axis)

    def outside(names: Any) -> Any:
        if names is None:
            return None
        at = index if index >= 0 else index + len(names) + 1
        return (*names[:at], axis_name, *names[at:])

    def inside(names: Any) -> Any:
        if names is None:
            return None
        if names[index] != axis_name:
            raise ValueError(
                f"Expected axis {axis_name} at position {index} in axis metadata {names}."
            )
        rest = list(names)
        del rest[index]
        return tuple(rest)

    def changed(change: Callable[[Any], Any], tree: Any) -> Any:
        def of_box(box: Any) -> Any:
            if not isinstance(box, AxisMetadata):
                return box
            return AxisMetadata(tree_map(change, box.names, is_leaf=is_logical))

        return tree_map(of_box, tree, is_leaf=lambda x: isinstance(x, AxisMetadata))

    module = context.modules[-1]
    return map_variables(
        target,
        collection,
        mutable=module is None or module.is_mutable_collection(collection),
        trans_in_fn=lambda tree: changed(inside, tree),
        trans_out_fn=lambda tree: changed(outside, tree),
    )


def scan_with_axes(
    target: Any,
    variable_axes: Mapping[Any, Any] = {},
    variable_broadcast: CollectionFilter = False,
    variable_carry: CollectionFilter = False,
    split_rngs: Mapping[Any, bool] = {},
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    axis_name: str = "layers",
    axes_collections: Sequence[str] = ("params",),
    data_transform: Callable[..., Any] | None = None,
    methods: Any = None,
) -> Any:
    """Lift as `linen.scan`; the logical names of scanned variables gain `axis_name` outside."""
    shared = union_filters(variable_broadcast, [f"{name}_axes" for name in axes_collections])
    lifted = scan(
        target,
        variable_axes=variable_axes,
        variable_broadcast=shared,
        variable_carry=variable_carry,
        split_rngs=split_rngs,
        in_axes=in_axes,
        out_axes=out_axes,
        length=length,
        reverse=reverse,
        unroll=unroll,
        data_transform=data_transform,
        methods=methods,
    )
    for name in axes_collections:
        if name in variable_axes:
            lifted = _with_named_axis(lifted, variable_axes[name], axis_name, f"{name}_axes")
    return lifted


def vmap_with_axes(
    target: Any,
    variable_axes: Mapping[Any, Any],
    split_rngs: Mapping[Any, bool] = {},
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    partitioning_axis_names: Mapping[Any, str] = {},
    spmd_axis_name: str | None = None,
    methods: Any = None,
) -> Any:
    """Lift as `linen.vmap`; logical names of mapped variables gain an axis outside.

    `partitioning_axis_names` gives its name for each collection.
    """
    axes = {**variable_axes, **{f"{name}_axes": None for name in partitioning_axis_names}}
    lifted = vmap(
        target,
        variable_axes=axes,
        split_rngs=split_rngs,
        in_axes=in_axes,
        out_axes=out_axes,
        axis_size=axis_size,
        axis_name=axis_name,
        spmd_axis_name=spmd_axis_name,
        methods=methods,
    )
    for name, axis in variable_axes.items():
        if name in partitioning_axis_names:
            named = partitioning_axis_names[name]
            lifted = _with_named_axis(lifted, axis, named, f"{name}_axes")
    return lifted
