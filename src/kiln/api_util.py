"""Functions of pytrees as functions of leaves, by the names in `jax.api_util`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import one_line, three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source, definition_of
from kiln.base.tree import (
    PyTreeDef,
    broadcast_prefix,
    prefix_errors,
    tree_flatten,
    tree_unflatten,
)
from kiln.core.trace import aval_of
from kiln.extend.core.inspection import DebugInfo
from kiln.extend.linear_util import Store, WrappedFun, transformation2, transformation_with_aux2
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.struct import type_of_struct


def shaped_abstractify(x: Any) -> ShapedArray:
    """Return the type of an array, a number, or an object with a shape and a dtype."""
    return type_of_struct(x) or aval_of(x)


@transformation_with_aux2
def flatten_fun(
    f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *args_flat: Any
) -> list[Any]:
    """Take and return leaves; `in_tree` is the structure of (args, kwargs).

    The leaves are `args_flat`; the structure of the result is put into `store`.
    """
    args, kwargs = tree_unflatten(in_tree, args_flat)
    leaves, out_tree = tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return leaves


@transformation_with_aux2
def flatten_fun_nokwargs(
    f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *args_flat: Any
) -> list[Any]:
    """Take and return leaves; `in_tree` is the structure of the arguments.

    The leaves are `args_flat`; the structure of the result is put into `store`.
    """
    leaves, out_tree = tree_flatten(f(*tree_unflatten(in_tree, args_flat)))
    store.store(out_tree)
    return leaves


@transformation2
def _with_fixed(
    f: Callable[..., Any], fixed: tuple[tuple[int, Any], ...], *given: Any, **kwargs: Any
) -> Any:
    args = list(given)
    for i, value in fixed:
        args.insert(i, value)
    return f(*args, **kwargs)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """Fix all arguments but those numbered; return the function of these, and their values.

    Raises: ValueError for a fixed argument that must be hashable and is not.
    """
    numbers = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    varied = sorted({i % len(args) for i in numbers})
    fixed = tuple((i, x) for i, x in enumerate(args) if i not in varied)
    if require_static_args_hashable:
        for i, value in fixed:
            try:
                hash(value)
            except TypeError:
                raise ValueError(
                    three_lines(
                        f"argnums_partial at {current_source()}",
                        f"Non-hashable static argument {i}: {value!r:.60}",
                        "pass a hashable value, such as a tuple in place of a list",
                    )
                ) from None
    wrapped: WrappedFun = _with_fixed(f, fixed)
    return wrapped, tuple(args[i] for i in varied)


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """Return an axis for each leaf of a structure, given a prefix of it; an axis may be None.

    Raises: ValueError if it is not a prefix; `name` says of what.
    """
    full = tree_unflatten(treedef, [object()] * treedef.num_leaves)
    wrong = prefix_errors(axis_tree, full, _is_none, name)
    if wrong:
        raise ValueError(
            three_lines(
                f"{name} at {current_source()}",
                f"{name} specification must be a tree prefix of the corresponding value: "
                f"Mismatch details ({len(wrong)} found): {'; '.join(map(one_line, wrong))}",
                "give one value for all, or a tree of values with the same containers",
            )
        )
    return broadcast_prefix(axis_tree, full, _is_none)


def _is_none(x: Any) -> bool:
    return x is None


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: PyTreeDef
) -> tuple[bool, ...]:
    """Return for each leaf of (args, kwargs) whether it is donated.

    `donate_argnums` and `donate_argnames` choose arguments; `in_tree` is the structure of both.
    Raises: IndexError for a number beyond the arguments.
    """
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    chosen = [
        *[args[i] for i in donate_argnums],
        *[kwargs[name] for name in donate_argnames if name in kwargs],
    ]
    donated = set(tree_flatten(chosen)[0])
    return tuple(i in donated for i in range(in_tree.num_leaves))


def rebase_donate_argnums(
    donate_argnums: Sequence[int], static_argnums: Sequence[int]
) -> tuple[int, ...]:
    """Return the numbers of donated arguments among those that are not static.

    Raises: ValueError for an argument that is both.
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(
            three_lines(
                f"donate_argnums {tuple(donate_argnums)} at {current_source()}",
                f"static_argnums {tuple(static_argnums)} and donate_argnums cannot intersect: "
                f"arguments {sorted(both)} are static, and have no memory to donate",
                "leave them out of donate_argnums",
            )
        )
    donated = sorted({*donate_argnums})
    return tuple([i - sum(s < i for s in static_argnums) for i in donated])


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    sourceinfo: str | None = None,
    signature: inspect.Signature | None = None,
) -> DebugInfo:
    """Return where a function comes from and what its arguments are called, for messages.

    `traced_for` names the transformation. Arguments that `static_argnums` or `static_argnames`
    choose are left out; `signature` and `sourceinfo` are by default those of the function;
    `result_paths_thunk` is kept with them.
    """
    try:
        bound = (signature or inspect.signature(fun)).bind_partial(*args, **kwargs)
        names = tuple(n for n in bound.arguments if n not in static_argnames)
    except (TypeError, ValueError):
        names = tuple(f"args[{i}]" for i in range(len(args)))
    kept = tuple(n for i, n in enumerate(names) if i not in set(static_argnums))
    return DebugInfo(traced_for, sourceinfo or definition_of(fun), kept, result_paths_thunk)


def safe_map(f: Callable[..., Any], *args: Any) -> list[Any]:
    """Apply a function to elements of sequences of equal lengths.

    Raises: ValueError if the lengths differ.
    """
    return [f(*xs) for xs in zip(*args, strict=True)]


__all__ = [
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]

_suggest_names(globals())
