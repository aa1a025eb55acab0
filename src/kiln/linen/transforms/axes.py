"""Lifted `vmap` and `scan`: variables, keys and arguments have an axis hidden from modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.api.mapping.vmap import vmap as plain_vmap
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_leaves, tree_map, tree_unflatten
from kiln.control.loops.loops import scan as plain_scan
from kiln.core.staging import eval_jaxpr, stage
from kiln.core.trace import aval_of
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.linen import metadata
from kiln.linen.module import Module
from kiln.linen.scopes.filters import Filter, in_filter
from kiln.linen.transforms.lift import Group, Lift, LiftedKeys, Roots, Target, written_by
from kiln.linen.transforms.lifted import Apply, lift_target
from kiln.numpy.shapes import moveaxis
from kiln.random.keys import split

Params = Mapping[Any, Any]


class In(NamedTuple):
    """An axis of variables that are only read: writes are not visible outside."""

    axis: Any


class Out(NamedTuple):
    """An axis of variables that are only written: the module starts without them."""

    axis: Any


class _Broadcast:
    """Used in place of an axis of `scan`: the same value in every step."""

    def __repr__(self) -> str:
        return "broadcast"


broadcast = _Broadcast()


def _axes(variable_axes: Mapping[Any, Any]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Return the filters and axes of inputs, and those of outputs."""
    ins = [(f, a) for f, a in variable_axes.items() if not isinstance(a, Out)]
    outs = [(f, a) for f, a in variable_axes.items() if not isinstance(a, In)]

    def bare(axis: Any) -> Any:
        return axis.axis if isinstance(axis, (In, Out)) else axis

    return (
        [f for f, _ in ins],
        [bare(a) for _, a in ins],
        [f for f, _ in outs],
        [bare(a) for _, a in outs],
    )


def _without_axis(group: Group, axis: Any, params: Params) -> Group:
    return group if axis is None else metadata.remove_axis(group, axis, params)


def _with_axis(group: Group, axis: Any, params: Params) -> Group:
    return group if axis is None else metadata.add_axis(group, axis, params)


def merged(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge disjoint dictionaries.

    No name is in two of the `groups`.
    """
    return {name: value for group in groups for name, value in group.items()}


def written_in_groups(lift: Lift, application: Any, filters: Sequence[Filter]) -> list[Group]:
    """Divide the variables that may have been written among filters.

    Each collection that `application` of `lift` wrote goes to the first filter that selects it, or
    is dropped.
    """
    found: list[Group] = [{} for _ in filters]
    for collection, trees in lift.written(application).items():
        for wanted, group in zip(filters, found, strict=True):
            if in_filter(wanted, collection):
                group[collection] = trees
                break
    return found


def divided_roots(lift: Lift, split_rngs: Mapping[Any, bool], size: Any) -> tuple[Roots, Roots]:
    """Return the roots that are split, one key per step, and those shared by all steps.

    `split_rngs` says by filters of streams' names whether a stream of `lift` is split, into `size`
    keys; streams that no filter selects are in neither.
    """
    parts: Roots = {}
    whole: Roots = {}
    for name, root in lift.roots().items():
        for wanted, is_split in split_rngs.items():
            if in_filter(wanted, name):
                if is_split:
                    parts[name] = split(root, size)
                else:
                    whole[name] = root
                break
    return parts, whole


def _is_none(x: Any) -> bool:
    return x is None


def _sizes(axes: Any, values: Any) -> list[Any]:
    """Return the sizes of the mapped axes of values; `axes` is a prefix of them."""
    leaves = tree_leaves(values)
    spread = broadcast_prefix(axes, values, _is_none)
    return [
        aval_of(x).shape[a]
        for x, a in zip(leaves, spread, strict=True)
        if a is not None and a is not broadcast
    ]


def _size(what: str, given: Any, found: Sequence[Any], option: str) -> Any:
    if given is not None:
        return given
    if not found:
        raise ValueError(
            three_lines(
                f"{what} without {option} at {current_source()}",
                f"{option} should be specified manually: no argument and no variable has the axis",
                f"give {option}=",
            )
        )
    if any(s != found[0] for s in found):
        raise ValueError(
            three_lines(
                f"{what} without {option} at {current_source()}",
                f"Inconsistent sizes of the mapped axis: {sorted(set(found))}",
                "make the mapped axes of arguments and variables equally long",
            )
        )
    return found[0]


def run_method(target: Target, module: Module, values: Any) -> Any:
    """Run a method with a pair of positional and keyword arguments.

    `values` are the arguments of `target`, which is run on `module`.
    """
    args, kwargs = values
    return target.run(module, args, kwargs)


def vmap(
    target: Any,
    variable_axes: Mapping[Any, Any] = {},
    split_rngs: Mapping[Any, bool] = {},
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Any = None,
    spmd_axis_name: Any = None,
    metadata_params: Params = {},  # noqa: B006
    methods: Any = None,
) -> Any:
    """Map methods of a module class, or a function of a module, over axes of their arguments.

    `variable_axes` maps filters of collections to the mapped axis: None shares the variables;
    collections that match no filter are not available inside. `split_rngs` says for filters of
    streams whether each step draws its own numbers. `in_axes` applies to the positional arguments
    after the module; keyword arguments are not mapped. `metadata_params` describe the axis to
    boxes.

    Raises: ValueError if the size of the axis is unknown, or sizes differ.
    Source: the documentation of `flax.linen.vmap`.
    Example:
        >>> class Ensemble(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         five = linen.vmap(
        ...             linen.Dense,
        ...             in_axes=None,
        ...             axis_size=5,
        ...             variable_axes={"params": 0},
        ...             split_rngs={"params": True},
        ...         )
        ...         return five(2)(x)
        >>> Ensemble().init_with_output(random.key(0), jnp.ones(3))[0].shape
        (5, 2)
    """
    given = {
        "variable_axes": variable_axes,
        "split_rngs": split_rngs,
        "in_axes": in_axes,
        "out_axes": out_axes,
        "axis_size": axis_size,
        "axis_name": axis_name,
        "spmd_axis_name": spmd_axis_name,
        "metadata_params": metadata_params,
    }

    def make(method: Target, changed: dict[str, Any]) -> Apply:
        return _vmapped(**{**given, **changed})

    return lift_target(target, make, "Vmap", methods)


def _vmapped(
    variable_axes: Mapping[Any, Any],
    split_rngs: Mapping[Any, bool],
    in_axes: Any,
    out_axes: Any,
    axis_size: int | None,
    axis_name: Any,
    spmd_axis_name: Any,
    metadata_params: Params,
) -> Apply:
    in_filters, group_axes, out_filters, out_group_axes = _axes(variable_axes)

    def apply(target: Target, module: Module, args: tuple[Any, ...], kwargs: Any) -> Any:
        lift = Lift(module, (args, kwargs), set_up=not target.of_class)
        values, named = lift.values
        groups = [
            _without_axis(g, a, metadata_params)
            for g, a in zip(lift.groups(in_filters), group_axes, strict=True)
        ]
        axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        sizes = _sizes((axes, tuple(group_axes)), (tuple(values), tuple(groups)))
        size = _size(f"vmap of {target.name}", axis_size, sizes, "axis_size")
        parts, whole = divided_roots(lift, split_rngs, size)

        def pure(values: Any, groups: Any, parts: Roots) -> Any:
            keys = LiftedKeys({**whole, **parts}, lift)
            application = lift.application(merged(groups), keys, written_by(*out_filters))
            result = lift.run(target, application, (values, named), run_method)
            return result, tuple(written_in_groups(lift, application, out_filters))

        result, written = plain_vmap(
            pure,
            in_axes=(axes, tuple(group_axes), 0),
            out_axes=(out_axes, tuple(out_group_axes)),
            axis_name=axis_name,
            axis_size=size,
            spmd_axis_name=spmd_axis_name,
        )(tuple(values), tuple(groups), parts)
        lift.commit(
            *[
                _with_axis(g, a, metadata_params)
                for g, a in zip(written, out_group_axes, strict=True)
            ]
        )
        return result

    return apply


def scan(
    target: Any,
    variable_axes: Mapping[Any, Any] = {},
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    split_rngs: Mapping[Any, bool] = {},
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    data_transform: Callable[..., Any] | None = None,
    metadata_params: Params = {},  # noqa: B006
    methods: Any = None,
    _split_transpose: bool = False,
    check_constancy_invariants: bool = True,
) -> Any:
    """Run methods of the form `(module, carry, *xs) -> (carry, ys)` once per element of an axis.

    `variable_axes` maps filters of collections to the axis along which each step has its own
    variables; collections in `variable_broadcast` are the same in all steps, and are created before
    the loop; those in `variable_carry` are passed from step to step. `in_axes` and `out_axes` are
    axes of `xs` and `ys`, or `broadcast`. `data_transform(groups, rngs)` may change the inputs of a
    step. The body is traced twice, first for values that are the same in all steps, unless
    `check_constancy_invariants` is False.

    Raises: ValueError if the number of steps is unknown, or if a value that should be the same in
        all steps depends on the step; TypeError if the carry changes its type.
    Source: the documentation of `flax.linen.scan`.
    Example:
        >>> Loop = linen.scan(
        ...     linen.SimpleCell, variable_broadcast="params", split_rngs={"params": False}
        ... )
        >>> (carry, ys), _ = Loop(4).init_with_output(random.key(0), jnp.zeros(4), jnp.ones((7, 2)))
        >>> carry.shape, ys.shape
        ((4,), (7, 4))
    """
    given = {
        "variable_axes": variable_axes,
        "variable_broadcast": variable_broadcast,
        "variable_carry": variable_carry,
        "split_rngs": split_rngs,
        "in_axes": in_axes,
        "out_axes": out_axes,
        "length": length,
        "reverse": reverse,
        "unroll": unroll,
        "data_transform": data_transform,
        "metadata_params": metadata_params,
        "_split_transpose": _split_transpose,
        "check_constancy_invariants": check_constancy_invariants,
    }

    def make(method: Target, changed: dict[str, Any]) -> Apply:
        return _Scan(**{**given, **changed})

    return lift_target(target, make, "Scan", methods)


class _Scan:
    """Runs a scanned method."""

    def __init__(
        self,
        variable_axes: Mapping[Any, Any],
        variable_broadcast: Filter,
        variable_carry: Filter,
        split_rngs: Mapping[Any, bool],
        in_axes: Any,
        out_axes: Any,
        length: int | None,
        reverse: bool,
        unroll: int,
        data_transform: Callable[..., Any] | None,
        metadata_params: Params,
        _split_transpose: bool,
        check_constancy_invariants: bool,
    ) -> None:
        ins, self.group_axes, outs, self.out_group_axes = _axes(variable_axes)
        self.in_filters = [variable_broadcast, variable_carry, *ins]
        self.out_filters = [variable_broadcast, variable_carry, *outs]
        self.split_rngs = split_rngs
        self.in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        self.out_axes = out_axes
        self.length = length
        self.loop: dict[str, Any] = {
            "reverse": reverse,
            "unroll": unroll,
            "_split_transpose": _split_transpose,
        }
        self.data_transform = data_transform
        self.params = metadata_params
        self.looks_first = check_constancy_invariants

    def __call__(
        self, target: Target, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        lift = Lift(module, (args, kwargs), set_up=not target.of_class)
        (init, *xs), named = lift.values
        shared, carried, *groups = lift.groups(self.in_filters)
        sizes = _sizes((self.in_axes, tuple(self.group_axes)), (tuple(xs), tuple(groups)))
        length = _size(f"scan of {target.name}", self.length, sizes, "length")
        parts, whole = divided_roots(lift, self.split_rngs, length)

        leaves, tree = tree_flatten(tuple(xs))
        axes = broadcast_prefix(self.in_axes, tuple(xs))
        moved = [moveaxis(x, a, 0) for x, a in zip(leaves, axes, strict=True) if a is not broadcast]
        stacks = [
            tree_map(lambda x, a=a: moveaxis(x, a, 0), g)
            for g, a in zip(groups, self.group_axes, strict=True)
        ]
        changes = {n: t for n, t in carried.items() if in_filter(lift.mutable, n)}
        stays = {n: t for n, t in carried.items() if n not in changes}

        def step(shared: Group, carry: Any, slices: Any) -> tuple[Any, Any, Any, Group]:
            value, changing = carry
            given, own, roots = slices
            rest = iter(given)
            full = [x if a is broadcast else next(rest) for x, a in zip(leaves, axes, strict=True)]
            plain = [
                _without_axis(g, a, self.params) for g, a in zip(own, self.group_axes, strict=True)
            ]
            everything: Any = ((shared, {**stays, **changing}, *plain), ({**whole, **roots},))
            if self.data_transform is not None:
                everything = self.data_transform(*everything)
            keys = LiftedKeys(merged(everything[1]), lift)
            application = lift.application(
                merged(everything[0]), keys, written_by(*self.out_filters)
            )
            values = ((value, *tree_unflatten(tree, full)), named)
            result = lift.run(target, application, values, run_method)
            value, ys = _pair(target, result)
            made, changed, *written = written_in_groups(lift, application, self.out_filters)
            return value, ys, (changed, tuple(written)), made

        shared, fixed, ys_fixed = self._first(step, shared, (init, changes), (moved, stacks, parts))
        shape: list[Any] = []

        def body(carry: Any, slices: Any) -> Any:
            value, ys, (changed, written), _ = step(shared, carry, slices)
            flat, out_tree = tree_flatten(ys)
            out_axes = broadcast_prefix(self.out_axes, ys)
            shape[:] = [out_tree, out_axes]
            kept = [y for y, a in zip(flat, out_axes, strict=True) if a is not broadcast]
            return (value, changed), (kept, written)

        (value, changed), (kept, written) = plain_scan(
            body, (init, changes), (moved, stacks, parts), length=length, **self.loop
        )
        out_tree, out_axes = shape
        rest, same = iter(kept), iter(ys_fixed)
        ys = [next(same) if a is broadcast else moveaxis(next(rest), 0, a) for a in out_axes]
        back = [
            _with_axis(tree_map(lambda x, a=a: moveaxis(x, 0, a), g), a, self.params)
            for g, a in zip(written, self.out_group_axes, strict=True)
        ]
        lift.commit(fixed, changed, *back)
        return value, tree_unflatten(out_tree, ys)

    def _first(
        self, step: Callable[..., Any], shared: Group, carry: Any, stacks: Any
    ) -> tuple[Group, Group, list[Any]]:
        """Trace one step to find the values that are the same in all of them.

        Returns the shared variables as the steps see them, those among them that were written, and
        the results that are not stacked.
        """
        if not self.looks_first:
            return shared, {}, []
        found: list[Any] = []

        leaves, given = tree_flatten((carry, stacks))
        first = len(tree_leaves(carry))

        def same(*leaves: Any) -> list[Any]:
            _, ys, _, made = step(shared, *tree_unflatten(given, leaves))
            spread = broadcast_prefix(self.out_axes, ys)
            results = [y for y, a in zip(tree_leaves(ys), spread, strict=True) if a is broadcast]
            flat, tree = tree_flatten(made)
            found[:] = [tree, len(flat)]
            return [*flat, *results]

        avals = [aval_of(x) for x in leaves]
        avals[first:] = [ShapedArray(a.shape[1:], a.dtype, a.weak_type) for a in avals[first:]]
        jaxpr, consts = stage(same, avals, purpose="scan")
        tree, count = found
        if not jaxpr.outvars:
            # Boxes without values, such as names of axes, are variables too.
            empty: Group = tree_unflatten(tree, [])
            return {**shared, **empty}, empty, []
        live, needed = eliminate_dead_code(jaxpr)
        if any(needed):
            raise ValueError(
                three_lines(
                    f"scan with variable_broadcast or broadcast results at {current_source()}",
                    "broadcasted variable has a data dependency on the scan body: it depends on "
                    "the carry, on a scanned argument or on a key that is split",
                    "use variable_carry or variable_axes for it",
                )
            )
        values = eval_jaxpr(live, consts, *[None] * len(live.invars))
        made: Group = tree_unflatten(tree, values[:count])
        return {**shared, **made}, made, values[count:]


def _pair(target: Target, result: Any) -> Any:
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result
    raise TypeError(
        three_lines(
            f"scan of {target.name} at {current_source()}",
            f"the method must return a pair (carry, ys), and returned {type(result).__name__}",
            "return carry, None if nothing is to be stacked",
        )
    )
