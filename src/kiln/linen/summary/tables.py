"""Tables of modules: the calls of an init, types of inputs and outputs, variables and sizes."""

from __future__ import annotations

import dataclasses
import enum
import io
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.base.lazy import rich_console, rich_table, rich_text
from kiln.base.tree import tree_leaves
from kiln.linen.metadata import AxisMetadata
from kiln.linen.scopes.filters import NOT_INTERMEDIATES, CollectionFilter
from kiln.linen.summary.flops import flops_of
from kiln.linen.summary.recording import Call, Path, recorded

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclasses.dataclass
class Row:
    """A row of the table: a call, its own variables, and its totals."""

    call: Call
    own: dict[str, Any]
    sizes: dict[str, tuple[int, int]]


def tabulate(
    module: Any,
    rngs: Any,
    depth: int | None = None,
    show_repeated: bool = False,
    mutable: CollectionFilter = NOT_INTERMEDIATES,
    console_kwargs: Mapping[str, Any] | None = None,
    table_kwargs: Mapping[str, Any] = _NO_OPTIONS,
    column_kwargs: Mapping[str, Any] = _NO_OPTIONS,
    compute_flops: bool = False,
    compute_vjp_flops: bool = False,
    **kwargs: Any,
) -> Callable[..., str]:
    """Return a function of a module's arguments that returns the table of its init.

    `depth` bounds the length of the paths; options go to rich's Console, Table and columns. Only
    types are computed; `compute_flops` and `compute_vjp_flops` add the compiler's estimates.

    Example:
        >>> table = linen.tabulate(linen.Dense(4), random.key(0))(jnp.ones((2, 3)))
        >>> "16" in table  # parameters
        True
    """

    def table(*args: Any, **more: Any) -> str:
        calls, variables = recorded(
            lambda: module.init(rngs, *args, mutable=mutable, **{**kwargs, **more})
        )
        rows = rows_of(calls, variables, depth, show_repeated)
        collections = sorted(variables, key=lambda name: (name != "params", name))
        costs: dict[str, Callable[[Call], str]] = {}
        if compute_flops:
            costs["flops"] = lambda call: flops_of(call, variables, rngs, backward=False)
        if compute_vjp_flops:
            costs["vjp_flops"] = lambda call: flops_of(call, variables, rngs, backward=True)
        drawn = _drawn(
            type(module).__name__, rows, variables, collections, costs, table_kwargs, column_kwargs
        )
        return _text(drawn, console_kwargs)

    return table


def rows_of(
    calls: Sequence[Call], variables: Mapping[str, Any], depth: int | None, show_repeated: bool
) -> list[Row]:
    """Return the rows of a table: variables of a module that is not shown count for its parent."""
    paths = {call.path for call in calls}
    shown = {path for path in paths if depth is None or len(path) <= depth}
    rows = []
    for call in calls:
        if call.path not in shown or (call.repeated and not show_repeated):
            continue
        own, sizes = {}, {}
        if not call.repeated:
            for name, tree in variables.items():
                here = _without(_at(tree, call.path), call.path, paths)
                if here:
                    own[name] = here
                sizes[name] = size_of(_without(_at(tree, call.path), call.path, shown))
        rows.append(Row(call, own, sizes))
    return rows


def _at(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree.get(name, {}) if isinstance(tree, Mapping) else {}
    return tree


def _without(tree: Any, path: Path, others: set[Path]) -> Any:
    """Return the tree at a path without the parts at other paths, and without empty parts."""
    if not isinstance(tree, Mapping):
        return tree
    kept = {}
    for name, value in tree.items():
        below = (*path, name)
        if below not in others:
            rest = _without(value, below, others)
            if not isinstance(rest, Mapping) or rest:
                kept[name] = rest
    return kept


def size_of(tree: Any) -> tuple[int, int]:
    """Return the number of elements and of bytes in the leaves of a tree."""
    elements = size_bytes = 0
    for leaf in tree_leaves(tree):
        count = math.prod(leaf.shape)
        elements += count
        size_bytes += count * leaf.dtype.itemsize
    return elements, size_bytes


def _size_text(size: tuple[int, int]) -> str:
    elements, size_bytes = size
    return f"{elements:,} ({_bytes_text(size_bytes)})"


def _bytes_text(size_bytes: int) -> str:
    size, unit = float(size_bytes), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size_bytes} B" if unit == "B" else f"{size:,.1f} {unit}"


def value_lines(value: Any) -> list[str]:
    """Return a value as lines: arrays by type, containers as nested items and entries."""
    if isinstance(value, AxisMetadata):
        return _boxed_lines(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return [f"{value.dtype}[{','.join(map(str, value.shape))}]"]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return value_lines({field.name: getattr(value, field.name) for field in fields})
    if isinstance(value, Mapping) and value:
        lines = []
        for key, item in value.items():
            name = key.value if isinstance(key, enum.Enum) else key
            inside = value_lines(item)
            if _is_nested(item):
                indent = "  " if isinstance(item, Mapping) else ""
                lines += [f"{name}:", *(indent + line for line in inside)]
            else:
                lines.append(f"{name}: {inside[0]}")
        return lines
    if isinstance(value, (list, tuple)) and value:
        lines = []
        for item in value:
            first, *rest = value_lines(item)
            lines += [f"- {first}", *("  " + line for line in rest)]
        return lines
    return [str(value)]


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value)


def _boxed_lines(box: Any) -> list[str]:
    first, *rest = value_lines(getattr(box, "value", box))
    names = getattr(box, "names", None)
    if names is None:
        return [first, *rest]
    return [f"{first} P({', '.join(map(str, names))}{',' * (len(names) == 1)})", *rest]


def _inputs(call: Call) -> list[str]:
    if len(call.args) == 1 and not call.kwargs:
        return value_lines(call.args[0])
    lines = value_lines(call.args) if call.args else []
    for name, value in call.kwargs.items():
        first, *rest = value_lines({name: value})
        lines += [f"- {first}", *("  " + line for line in rest)]
    return lines


def _drawn(
    name: str,
    rows: Sequence[Row],
    variables: Mapping[str, Any],
    collections: Sequence[str],
    costs: Mapping[str, Callable[[Call], str]],
    table_kwargs: Mapping[str, Any],
    column_kwargs: Mapping[str, Any],
) -> Any:
    settings = {"show_header": True, "show_lines": True, "show_footer": True}
    settings["title"] = f"{name} Summary"  # type: ignore[assignment]
    table = rich_table.Table(**{**settings, **table_kwargs})
    for column in ("path", "module", "inputs", "outputs", *costs, *collections):
        table.add_column(column, **column_kwargs)
    for row in rows:
        call = row.call
        method = "" if call.method == "__call__" else f" ({call.method})"
        cells = [
            "/".join(call.path),
            type(call.module).__name__ + method,
            "\n".join(_inputs(call)),
            "\n".join(value_lines(call.result)),
            *(cost(call) for cost in costs.values()),
            *(_variables_text(row, collection) for collection in collections),
        ]
        table.add_row(*map(_cell, cells))
    totals = {collection: size_of(variables[collection]) for collection in collections}
    table.columns[3 + len(costs)].footer = rich_text.Text("Total", justify="right")
    for i, collection in enumerate(collections):
        table.columns[4 + len(costs) + i].footer = _size_text(totals[collection])
    everything = tuple(map(sum, zip(*totals.values(), strict=True))) or (0, 0)
    table.caption_style = "bold"
    table.caption = f"\nTotal Parameters: {_size_text((everything[0], everything[1]))}"
    return table


def _cell(text: str) -> Any:
    cell = rich_text.Text(text)
    cell.highlight_regex(r"\w+(?=\[[\d,]*\])", "dim")
    return cell


def _variables_text(row: Row, collection: str) -> str:
    lines = value_lines(row.own[collection]) if collection in row.own else []
    size = row.sizes.get(collection, (0, 0))
    if size[0]:
        lines += ["", _size_text(size)] if lines else [_size_text(size)]
    return "\n".join(lines)


def _text(table: Any, console_kwargs: Mapping[str, Any] | None) -> str:
    options = {"force_terminal": True, "force_jupyter": False}
    console = rich_console.Console(**{**options, **(console_kwargs or {}), "file": io.StringIO()})
    console.print(table)
    return f"\n{console.file.getvalue()}\n"
