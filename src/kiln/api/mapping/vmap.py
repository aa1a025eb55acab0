"""`vmap`: map a function over an axis of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

from kiln.api.mapping.mapped_containers import as_elements, as_stacks
from kiln.api.mapping.vmappable import is_registered, spec_types, with_elements
from kiln.base import dtypes
from kiln.base.errors import one_line, three_lines
from kiln.base.keywords import known_keywords
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import (
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
    tree_unflatten,
)
from kiln.base.wrapping import wraps
from kiln.control.references.primitives import content_of, holding, replace_content
from kiln.control.regions.held_refs import check_apart
from kiln.core.ref import Ref, returned_ref
from kiln.core.trace import aval_of
from kiln.ir.sharded_types import has_sharding, mesh_of
from kiln.jit.signatures.argument_types import leaf_type
from kiln.jit.signatures.parameters import parameter_name
from kiln.ops.shape import mapped_at
from kiln.ops.sharding import retyped
from kiln.transforms.batching import MappedAxis, batch

P = ParamSpec("P")
R = TypeVar("R")


@known_keywords
def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[P, R]:
    """Vectorize a function: map it over axes of its arguments.

    `in_axes` is an int, None (not mapped), or a pytree prefix of the positional arguments; keyword
    arguments are mapped over their first axis. `out_axes` says where the mapped axis goes in the
    results. `axis_name` makes collectives (psum, ...) available inside.

    Raises: ValueError if mapped sizes differ, an axis is out of bounds, nothing is mapped, or an
        output with out_axes None is mapped.
    Source: the documentation of `jax.vmap`.
    Example:
        >>> rows = jnp.arange(6.0).reshape(3, 2)
        >>> kiln.vmap(jnp.dot, in_axes=(0, None))(rows, jnp.ones(2))
        Array([1., 5., 9.], dtype=float32)
        >>> kiln.vmap(lambda x: {"sum": x.sum()}, in_axes=1, out_axes=0)(rows)
        {'sum': Array([6., 9.], dtype=float32)}
    """
    if not callable(fun):
        raise TypeError(
            three_lines(
                f"vmap({fun!r:.60}) at {current_source()}",
                f"Expected a callable value, got {fun!r}",
                "write vmap(function, ...)(arguments)",
            )
        )
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple)) or type(in_axes) in spec_types):
        raise TypeError(
            three_lines(
                f"vmap of {name_of(fun)} with in_axes={in_axes!r} at {current_source()}",
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got {in_axes!r}.",
                "write in_axes=(0, None, ...)",
            )
        )

    for option, value in (("in_axes", in_axes), ("out_axes", out_axes)):
        for axis in tree_leaves(value):
            if type(axis) not in spec_types:
                raise TypeError(
                    three_lines(
                        f"vmap of {name_of(fun)} with {option}={value!r} at {current_source()}",
                        f"vmap {option} must be an int, None, or a container of them, but it holds "
                        f"{axis!r} of type {type(axis)}",
                        f"write {option}=0, or a pytree of ints and None",
                    )
                )

    @wraps(fun)
    @api_boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                three_lines(
                    f"vmap of {name_of(fun)} at {current_source()}",
                    "vmap in_axes must be an int, None, or a tuple of entries corresponding to "
                    f"the positional arguments passed to the function, but got "
                    f"{len(in_axes)=}, {len(args)=}",
                    "give one entry per positional argument",
                )
            )
        options = (in_axes, out_axes, axis_name, axis_size, spmd_axis_name)
        if is_registered():
            return with_elements(_mapped, fun, options, args, kwargs)
        return _mapped(fun, *options, args, kwargs)

    return mapped


def _mapped(
    fun: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    axis_name: Hashable | None,
    axis_size: int | None,
    spmd_axis_name: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function once, on stacks of arguments."""
    pairs, tree = tree_flatten_with_path((args, kwargs))
    leaves = [x for _, x in pairs]
    axes = _in_axes(fun, in_axes, args, kwargs)
    size = _mapped_size(fun, pairs, axes, axis_size)
    axes = [
        None if a is None else a + len(aval_of(x).shape) if a < 0 else a
        for x, a in zip(leaves, axes, strict=True)
    ]
    elements = as_elements((args, kwargs), axes)
    if elements[0] is not args:
        tree = tree_structure(elements)
    box: list[Any] = []
    refs = [i for i, a in enumerate(axes) if a is not None and type(leaves[i]) is Ref]
    if refs:
        check_apart(f"vmap of {name_of(fun)}", fun, args)

    def flat(*xs: Any) -> list[Any]:
        made = {i: holding(aval_of(xs[i]), xs[i]) for i in refs}
        given, named = tree_unflatten(tree, [made.get(i, x) for i, x in enumerate(xs)])
        results, out_tree = tree_flatten_with_path(fun(*given, **named))
        changed = [i for i in refs if made[i].content is not xs[i]]
        box[:] = [out_tree, changed]
        return [*_outputs(fun, results), *[made[i].content for i in changed]]

    values = [content_of(x) if i in refs else x for i, x in enumerate(leaves)]
    split = _mapped_split(fun, leaves, axes, spmd_axis_name)
    axis = MappedAxis(size, axis_name, split=split, spmd=spmd_axis_name or None)
    outs, at = batch(flat, axis, values, axes)
    for i in reversed(box[1]):
        replace_content(leaves[i], mapped_at(outs.pop(), size, at.pop(), axes[i]))
    wanted = _out_axes(fun, out_axes, tree_unflatten(box[0], outs))
    for i, (a, want) in enumerate(zip(at, wanted, strict=True)):
        if want is None and a is not None:
            raise _mapped_result(fun, tree_unflatten(box[0], outs), i, a, axis_name)
    placed = [_place(fun, x, a, want, axis) for x, a, want in zip(outs, at, wanted, strict=True)]
    return as_stacks(tree_unflatten(box[0], placed), wanted, size)


def _in_axes(fun: Any, in_axes: Any, args: Any, kwargs: Any) -> list[int | None]:
    try:
        axes = broadcast_prefix(in_axes, args, is_leaf=lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} with in_axes={in_axes!r} at {current_source()}",
                "vmap in_axes specification must be a tree prefix of the corresponding value; the "
                "arguments are not. Mismatch details: "
                f"{one_line(error)}",
                "give one entry per argument, or a pytree of the argument's structure",
            )
        ) from None
    return [*axes, *([0] * len(tree_flatten(kwargs)[0]))]


def _mapped_split(
    fun: Any, leaves: Sequence[Any], axes: Sequence[int | None], spmd_axis_name: Any
) -> tuple[Any, Any] | None:
    """Return the split of the mapped axis, with the mesh; None if nothing splits it."""
    mapped = [(aval_of(x), a) for x, a in zip(leaves, axes, strict=True) if a is not None]
    if not has_sharding([aval for aval, _ in mapped]):
        return None
    found = {aval.split[a] for aval, a in mapped}
    if len(found) > 1:
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} with arguments of types "
                f"{', '.join(str(aval) for aval, _ in mapped)} at {current_source()}",
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
                f"inconsistent axis specs: {', '.join(map(str, found))}",
                "reshard an argument: kiln.reshard(x, P(...))",
            )
        )
    entry = found.pop()
    if spmd_axis_name not in (None, entry):
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} over an axis that {entry} splits at {current_source()}",
                "Only one of spmd_axis_name or arrays sharded on an axis can be specified, got "
                f"spmd_axis_name={spmd_axis_name!r}",
                "leave spmd_axis_name out: types say what splits the mapped axis",
            )
        )
    return None if entry is None else (mesh_of([aval for aval, _ in mapped]), entry)


def _mapped_size(
    fun: Any, pairs: Sequence[Any], axes: Sequence[int | None], axis_size: int | None
) -> Any:
    sizes: dict[str, Any] = {}
    for (path, x), axis in zip(pairs, axes, strict=True):
        if axis is None:
            continue
        if leaf_type(x) is None:
            raise TypeError(
                three_lines(
                    f"vmap of {name_of(fun)} at {current_source()}",
                    f"the value of type {type(x)} at path {_name(fun, path)} is not a valid JAX "
                    "type",
                    "pass arrays and numbers, or give the argument None in in_axes: what is not "
                    "mapped may be anything",
                )
            )
        shape = aval_of(x).shape
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                three_lines(
                    f"vmap of {name_of(fun)} at {current_source()}",
                    f"vmap was requested to map its argument along axis {axis}, which implies that "
                    f"its rank should be at least {axis + 1 if axis >= 0 else -axis}, but is only "
                    f"{len(shape)} (its shape is {shape}): the argument {_name(fun, path)}",
                    "use in_axes=None for arguments that are not mapped",
                )
            )
        sizes[f"argument {_name(fun, path)} of type {aval_of(x)} along axis {axis}"] = shape[axis]
    found = set(sizes.values()) | ({axis_size} if axis_size is not None else set())
    if not found:
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} at {current_source()}",
                "vmap wrapped function must be passed at least one argument containing an array or "
                "axis_size must be specified; vmap must have at least one non-None value in "
                "in_axes, or axis_size",
                "map at least one argument",
            )
        )
    if len(found) > 1:
        listed = "; ".join(f"{what}: size {size}" for what, size in sizes.items())
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} at {current_source()}",
                f"vmap got inconsistent sizes for array axes to be mapped: {listed}"
                + (f"; axis_size={axis_size}" if axis_size is not None else ""),
                "pass arrays with equal sizes along the mapped axes",
            )
        )
    return found.pop()


def _outputs(fun: Any, results: Sequence[Any]) -> list[Any]:
    for path, x in results:
        if type(x) is Ref:
            raise returned_ref(f"vmap of {name_of(fun)}", keystr(path) or "the result", x)
        if leaf_type(x) is None and getattr(x, "dtype", None) != dtypes.float0:
            raise TypeError(
                three_lines(
                    f"vmap of {name_of(fun)} at {current_source()}",
                    f"Output from batched function {x!r:.60} with type {type(x)}, at output path "
                    f"{keystr(path) or '*'}, is not a valid JAX type",
                    "return arrays and numbers",
                )
            )
    return [x for _, x in results]


def _name(fun: Any, path: Any) -> str:
    root = parameter_name(fun, path[1].idx) if path[0].idx == 0 else str(path[1].key)
    return root + keystr(path[2:])


def _out_axes(fun: Any, out_axes: Any, result: Any) -> list[int | None]:
    try:
        return broadcast_prefix(out_axes, result, is_leaf=lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} with out_axes={out_axes!r} at {current_source()}",
                "vmap out_axes specification must be a tree prefix of the result: "
                f"{one_line(error)}",
                "give one entry per output",
            )
        ) from None


def _mapped_result(fun: Any, result: Any, i: int, at: int, axis_name: Any) -> ValueError:
    path = keystr(tree_flatten_with_path(result)[0][i][0])
    named = "" if axis_name is None else f" (axis_name={axis_name})"
    return ValueError(
        three_lines(
            f"vmap of {name_of(fun)} at {current_source()}",
            f"at vmap out_axes{path}, got axis spec None but output was batched on axis {at}: "
            f"vmap has mapped output{named} but out_axes is None",
            "give the output an out_axes, or reduce over the mapped axis by name",
        )
    )


def _place(fun: Any, x: Any, at: int | None, want: int | None, axis: MappedAxis) -> Any:
    if want is None:
        return x
    ndim = len(aval_of(x).shape) + (at is None)
    if not -ndim <= want < ndim:
        raise ValueError(
            three_lines(
                f"vmap of {name_of(fun)} with out_axes={want} at {current_source()}",
                f"axis {want} is out of bounds for an output with {ndim} axes",
                f"use an axis from {-ndim} to {ndim - 1}",
            )
        )
    want = want + ndim if want < 0 else want
    made = mapped_at(x, axis.size, at, want)
    if at is not None or axis.split is None:
        return made
    # A value that is the same for all examples is split like their stacks.
    return retyped(made, axis.stack_of(aval_of(x), want))
