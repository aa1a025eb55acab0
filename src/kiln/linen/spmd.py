"""Axes with logical names, and rules that say which mesh axes shard them.

A rule is `(logical name, mesh axis, or several, or None)`. The active rules are a per-thread option
and part of every cache key, so that a program traced under other rules is not used.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from kiln import struct
from kiln.base.errors import three_lines
from kiln.base.options.config import config, options, override
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.ir.shardings.mesh import Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding
from kiln.linen.metadata import A, Names, Partitioned
from kiln.ops.sharding import with_sharding_constraint

Rules = Sequence[tuple[str, Any]]


class RulesFallback(enum.Enum):
    """How to treat a logical name that no rule assigns.

    Example:
        >>> linen.RulesFallback.RAISE_ERROR.name
        'RAISE_ERROR'
    """

    AXIS_IS_UNSHARDED = "axis_is_unsharded"
    RAISE_ERROR = "raise_error"
    NO_CONSTRAINT = "no_constraint"


class _Unassigned:
    """Stands for the mesh axes of a logical name without a rule."""

    def __repr__(self) -> str:
        return "UnassignedAxis"

    def __bool__(self) -> bool:
        return False


_UNASSIGNED = _Unassigned()


def set_logical_axis_rules(rules: Rules) -> None:
    """Set the rules that apply outside `logical_axis_rules`, for every thread.

    Raises: ValueError for a rule that is not a pair (logical name, mesh axes).
    Example:
        >>> linen.set_logical_axis_rules([("batch", "rows")])
        >>> linen.logical_to_mesh_axes(("batch",))
        P('rows')
        >>> linen.set_logical_axis_rules([])
    """
    config.update("logical_axis_rules", _frozen(rules))


def get_logical_axis_rules() -> Rules:
    """Return the rules that apply on this thread.

    Example:
        >>> with linen.logical_axis_rules([("batch", "rows")]):
        ...     linen.get_logical_axis_rules()
        (('batch', 'rows'),)
    """
    found: Rules = options().logical_axis_rules
    return found


def logical_axis_rules(rules: Rules) -> AbstractContextManager[None]:
    """Apply other rules on this thread until the context ends.

    Raises: ValueError for a rule that is not a pair (logical name, mesh axes).
    Example:
        >>> with linen.logical_axis_rules([("batch", "rows"), ("features", None)]):
        ...     linen.logical_to_mesh_axes(("batch", "features"))
        P('rows', None)
    """
    return override(logical_axis_rules=_frozen(rules))


def _frozen(rules: Rules) -> tuple[tuple[str, Any], ...]:
    found = []
    for rule in rules:
        if len(rule) != 2:
            raise ValueError(
                three_lines(
                    f"logical axis rules with {rule!r} at {current_source()}",
                    "a rule is a pair",
                    "write (logical name, mesh axis), (logical name, (mesh axes)), or "
                    "(logical name, None)",
                )
            )
        name, axes = rule
        found.append((name, tuple(axes) if isinstance(axes, list) else axes))
    return tuple(found)


def _assigned(names: Sequence[Any], rules: Rules | None) -> list[Any]:
    """Return the mesh axes of each logical name.

    Rules are tried in order: the first for a name whose mesh axes are all free applies.
    """
    known = get_logical_axis_rules() if rules is None else _frozen(rules)
    repeated = tuple(sorted({n for n in names if isinstance(n, str) and names.count(n) > 1}))
    if repeated:
        raise ValueError(
            three_lines(
                f"logical axes {tuple(names)} at {current_source()}",
                f"Unsupported: Dimensions {repeated} occur more than once in array names.",
                "give each axis of an array a name of its own, or None",
            )
        )
    found: list[Any] = [_UNASSIGNED if isinstance(n, str) else n or None for n in names]
    taken = {axis for axes in found if axes is not _UNASSIGNED for axis in axes_of(axes)}
    for name, axes in known:
        if name in names and found[names.index(name)] is _UNASSIGNED:
            if taken.isdisjoint(axes_of(axes)):
                found[names.index(name)] = axes
                taken |= set(axes_of(axes))
    return found


def logical_to_mesh_axes(
    array_dim_names: Sequence[Any] | PartitionSpec | None, rules: Rules | None = None
) -> PartitionSpec | None:
    """Return the PartitionSpec of an array whose axes have these logical names.

    Axes without a rule are not sharded. By default, the active rules are used.

    Raises: ValueError for a name that occurs twice.
    Example:
        >>> rules = [("batch", "rows"), ("features", None)]
        >>> linen.logical_to_mesh_axes(("batch", "features"), rules)
        P('rows', None)
    """
    if array_dim_names is None:
        return None
    found = _assigned(tuple(array_dim_names), rules)
    return PartitionSpec(*(None if axes is _UNASSIGNED else axes for axes in found))


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


def logical_to_mesh(tree: Any, rules: Rules | None = None) -> Any:
    """Replace the logical names in a tree of PartitionSpecs by mesh axes.

    `rules` are by default those in force.

    Example:
        >>> linen.logical_to_mesh({"w": kiln.P("batch", None)}, [("batch", "rows")])
        {'w': P('rows', None)}
    """
    return tree_map(lambda spec: logical_to_mesh_axes(spec, rules), tree, is_leaf=_is_spec)


def logical_to_mesh_sharding(tree: Any, mesh: Mesh, rules: Rules | None = None) -> Any:
    """Replace PartitionSpecs of logical names in a tree by shardings of a mesh.

    `rules` are by default those in force.

    Example:
        >>> mesh, rules = kiln.make_mesh((1,), ("rows",)), [("batch", "rows")]
        >>> linen.logical_to_mesh_sharding({"w": kiln.P("batch")}, mesh, rules)["w"].spec
        P('rows')
    """
    return tree_map(
        lambda spec: NamedSharding(mesh, spec), logical_to_mesh(tree, rules), is_leaf=_is_spec
    )


def _with_sharding_constraint(x: Any, spec: PartitionSpec, mesh: Mesh | None = None) -> Any:
    if mesh is None and options().mesh is None:
        return x
    return with_sharding_constraint(x, spec if mesh is None else NamedSharding(mesh, spec))


def is_logical(x: Any) -> bool:
    """Tell whether a value names the axes of one array: a tuple of names, a spec, or None."""
    return (
        x is None
        or isinstance(x, PartitionSpec)
        or (
            isinstance(x, tuple)
            and all(n is None or isinstance(n, str) or n is PartitionSpec.UNCONSTRAINED for n in x)
        )
    )


def with_logical_constraint(
    x: Any,
    logical_axis_resources: Any,
    rules: Rules | None = None,
    mesh: Mesh | None = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
) -> Any:
    """Constrain the arrays of a tree to be sharded as the logical names of their axes say.

    `logical_axis_resources` is a tree prefix of names. Without a mesh, given or active, or without
    rules, nothing is constrained.

    Raises: ValueError for a name without a rule, with `RulesFallback.RAISE_ERROR`.
    Example:
        >>> linen.with_logical_constraint(jnp.ones(2), ("batch",))
        Array([1., 1.], dtype=float32)
    """
    known = get_logical_axis_rules() if rules is None else rules
    if not known:
        return x

    def constrain(names: Any, part: Any) -> Any:
        if names is None:
            return part
        axes = _assigned(tuple(names), known)
        if _UNASSIGNED in axes:
            if fallback is RulesFallback.NO_CONSTRAINT:
                return part
            if fallback is RulesFallback.RAISE_ERROR:
                raise ValueError(
                    three_lines(
                        f"with_logical_constraint of the logical axes {tuple(names)}"
                        f" at {current_source()}",
                        f"Axis names {tuple(names)} did not match a rule",
                        "add a rule for each of them; (name, None) leaves an axis whole",
                    )
                )
        spec = PartitionSpec(*(None if a is _UNASSIGNED else a for a in axes))
        return tree_map(lambda leaf: _with_sharding_constraint(leaf, spec, mesh=mesh), part)

    return tree_map(constrain, logical_axis_resources, x, is_leaf=is_logical)


class LogicallyPartitioned(Partitioned[A]):
    """A box that gives each axis of a value a logical name, which rules translate.

    With rules and a mesh, its own or the active ones, unboxing constrains the value.

    Example:
        >>> box = linen.LogicallyPartitioned(jnp.ones((2, 3)), ("batch", "features"))
        >>> box.get_partition_spec()
        P('batch', 'features')
    """

    rules: Rules | None = struct.field(default=None, pytree_node=False)

    def unbox(self, apply_constraint: bool = True) -> Any:
        """Return the value, constrained to be sharded as names and rules say."""
        if not apply_constraint:
            return self.value
        return with_logical_constraint(
            self.value, self.get_partition_spec(), rules=self.rules, mesh=self.mesh
        )


def with_logical_partitioning(
    fn: Callable[..., Any], names: Names, mesh: Mesh | None = None, rules: Rules | None = None
) -> Callable[..., LogicallyPartitioned[Any]]:
    """Return an initializer whose result is boxed in `LogicallyPartitioned` with these names.

    `fn` is an initializer; `mesh` and `rules` are kept in the box.

    Example:
        >>> init = linen.with_logical_partitioning(linen.initializers.ones, (None, "features"))
        >>> init(random.key(0), (2, 3)).names
        (None, 'features')
    """

    @functools.wraps(fn)
    def boxed(*args: Any, **kwargs: Any) -> LogicallyPartitioned[Any]:
        return LogicallyPartitioned(fn(*args, **kwargs), names, mesh=mesh, rules=rules)

    return boxed
