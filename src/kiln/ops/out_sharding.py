"""How results are sharded: as the keyword `out_sharding` says, or as follows from the operands.

The keyword names axes of a mesh whose shardings types hold (`AxisType.Explicit`); for others the
compiler decides, so naming them is an error. The parts that primitives' `splits` rules share follow
JAX's principle: an axis of a result is split like the axes of operands that it corresponds to. If
these differ, or if elements would have to move in a way that the operation does not express,
nothing is guessed: the caller must specify the sharding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.staging import refuse
from kiln.core.trace import aval_of
from kiln.ir.sharded_types import mesh_of
from kiln.ir.shardings.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding, require_fit
from kiln.ir.types import Split, plain, with_split
from kiln.ops.sharding import put


def sharded(x: Any, out_sharding: Any, name: str) -> Any:
    """Return a result of the function `name`, sharded; unchanged if `out_sharding` is None.

    Raises: TypeError unless it is a NamedSharding or a PartitionSpec; ValueError for a
        PartitionSpec where no mesh is in force, for another mesh than that one, for axes that are
        not Explicit, and for an array that cannot be divided so.
    """
    if out_sharding is None:
        return x
    found = _resolved(out_sharding, name)
    if found is None:
        return x
    asked = f"{name} with out_sharding={found.spec} at {current_source()}"
    aval = aval_of(x)
    require_fit(found, aval.shape, asked)
    return put(x, found.for_rank(len(aval.shape)))


def on_device_or_sharded(x: Any, device: Any, out_sharding: Any, name: str) -> Any:
    """Return a result of the function `name` on a device, or sharded.

    Raises: ValueError if both are given; what `sharded` raises.
    """
    if out_sharding is None:
        return put(x, device)
    if device is not None:
        raise ValueError(
            three_lines(
                f"{name} with device={device} and out_sharding={out_sharding} at "
                f"{current_source()}",
                "Only one of `device` or `out_sharding` can be set",
                "leave one of them out",
            )
        )
    return sharded(x, out_sharding, name)


def _resolved(given: Any, name: str) -> NamedSharding | None:
    asked = f"{name} with out_sharding={given!r:.100} at {current_source()}"
    if not isinstance(given, (NamedSharding, PartitionSpec)):
        raise TypeError(
            three_lines(
                asked,
                f"`out_sharding` argument of {name} only supports instances of `NamedSharding` or "
                f"`PartitionSpec`. Got {given!r:.100} of type: {type(given)}",
                "write PartitionSpec('x') under a mesh in force: with kiln.set_mesh(mesh): ...",
            )
        )
    mesh = options().mesh
    if isinstance(given, NamedSharding):
        if given.mesh.empty:
            return None
        sharding = given
        if mesh is not None and _axes(mesh) != _axes(given.mesh):
            raise ValueError(
                three_lines(
                    asked,
                    f"Context mesh {mesh} should match the mesh of sharding {given.mesh} passed "
                    f"to {name}",
                    "give a PartitionSpec, which is over the mesh in force",
                )
            )
    elif mesh is None:
        raise ValueError(
            three_lines(
                asked,
                "Using PartitionSpec when you are not under a mesh context is not allowed",
                "pass a NamedSharding, or set a mesh: with kiln.set_mesh(mesh): ...",
            )
        )
    else:
        sharding = NamedSharding(mesh, given)
    _require_explicit(sharding, name, asked)
    return sharding


def _axes(mesh: Mesh | AbstractMesh) -> Any:
    return mesh.shape_tuple, tuple(mesh.axis_types)


def _require_explicit(sharding: NamedSharding, name: str, asked: str) -> None:
    mesh = sharding.mesh
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for entry in sharding.spec:
        if entry is None or entry is UNCONSTRAINED:
            continue
        for axis in entry if isinstance(entry, tuple) else (entry,):
            if kinds[axis] is not AxisType.Explicit:
                raise ValueError(
                    three_lines(
                        asked,
                        f"PartitionSpec passed to {name} cannot contain axis names that are of "
                        f"type Auto or Manual. Got PartitionSpec: {sharding.spec} with axis name: "
                        f"{axis} of type: {kinds[axis]}",
                        "make the mesh with axis_types=(AxisType.Explicit, ...); for Auto axes "
                        "write lax.with_sharding_constraint(x, sharding)",
                    )
                )


_OUT = "say how the result is to be sharded with out_sharding=P(...), or reshard an operand: "
_RESHARD = _OUT + "kiln.reshard(x, P(...))"


def joined(name: str, xs: Sequence[Any]) -> Split:
    """Return the split of a result whose axes are those of all operands; scalars have none."""
    arrays = [x for x in xs if x.shape]
    if not arrays:
        return ()
    found = list(arrays[0].split)
    for x in arrays[1:]:
        for axis, entry in enumerate(x.split):
            if entry is None or entry == found[axis]:
                continue
            if found[axis] is not None:
                refuse(
                    name,
                    xs,
                    f"{name} got incompatible shardings for broadcasting: "
                    f"{', '.join(str(tuple(each.split)) for each in arrays)}",
                )
            found[axis] = entry
    return tuple(found)


def equal(name: str, xs: Sequence[Any]) -> Split:
    """Return the split that all operands have."""
    if any(x.split != xs[0].split for x in xs):
        listed = ", ".join(str(tuple(x.split)) for x in xs)
        refuse(name, xs, f"All operands should have the same sharding. Got shardings {listed}")
    return tuple(xs[0].split)


def kept(x: Any, axes: Sequence[int]) -> Split:
    """Return the split of a result that lacks some axes of the operand."""
    return tuple(entry for axis, entry in enumerate(x.split) if axis not in axes)


def resized(name: str, x: Any, result: Any) -> Split:
    """Return the split of a result that has the operand's axes, some with other sizes."""
    for size, new, entry in zip(x.shape, result.shape, x.split, strict=True):
        if size != new and entry is not None:
            parts = parts_of(x, entry)
            if not isinstance(new, int) or new % parts:
                refuse(
                    name,
                    [x],
                    f"{name} on sharded dims where out dim ({new}) is not divisible by mesh axes "
                    f"({parts}) with spec ({entry}) is not implemented: the result has shape "
                    f"{tuple(result.shape)}",
                )
    return tuple(x.split)


def parts_of(x: Any, entry: Any) -> int:
    """Return how many parts an entry of an array's split divides an axis into."""
    if entry is None:
        return 1
    sizes = mesh_of([x]).shape
    return math.prod(sizes[axis] for axis in axes_of(entry))


def whole_along(name: str, x: Any, axes: Sequence[int], wrong: str = "") -> Split:
    """Return the operand's split. Raise ShardingTypeError if it splits one of the axes."""
    split = [axis for axis in axes if x.split[axis] is not None]
    if split:
        wrong = wrong or f"{name} needs its operand unsharded along the axes it works on"
        refuse(
            name,
            [x],
            f"{wrong}, and {x.split[split[0]]} splits axis {split[0]}",
            "gather the axis first: kiln.reshard(x, P(...)) with None there, or let the compiler "
            "shard it: kiln.sharding.auto_axes(function, out_sharding=P(...))",
        )
    return tuple(x.split)


def plain_along(x: Any, axis: int) -> Any:
    """Return the operand's type with one axis not split."""
    if x.split[axis] is None:
        return x
    entries = [None if a == axis else entry for a, entry in enumerate(x.split)]
    return with_split(plain(x), mesh_of([x]), entries)


def stacks(name: str, xs: Sequence[Any], ranks: Sequence[int], results: Sequence[Any]) -> list[Any]:
    """Return the splits of results of an operation on batches of matrices or vectors."""
    leading = []
    for i, (x, rank) in enumerate(zip(xs, ranks, strict=True)):
        at = x.ndim - rank
        if any(x.split[at:]):
            refuse(
                name,
                xs,
                f"Input {i} to {name} must be unsharded on non-batch dimensions, but got {x.split}",
            )
        leading.append(tuple(x.split[:at]))
    if any(each != leading[0] for each in leading):
        refuse(
            name, xs, f"All inputs to {name} must have the same batch sharding, but got {leading}"
        )
    return [(*leading[0], *[None] * (result.ndim - len(leading[0]))) for result in results]


def contracted(name: str, x: Any, y: Any, numbers: Any) -> Split:
    """Return the split of a product summed over contracting axes."""
    (lc, rc), (lb, rb) = numbers
    pairs = (
        ("lhs batch dimensions and rhs batch dimensions to have the", lb, rb),
        ("contracting dimensions to have", lc, rc),
    )
    for kind, left, right in pairs:
        a, b = tuple(x.split[i] for i in left), tuple(y.split[i] for i in right)
        if any(p != q and p is not None and q is not None for p, q in zip(a, b, strict=True)):
            refuse(
                name,
                [x, y],
                f"{name} requires {kind} consistent sharding, got {a} and {b}",
                _RESHARD,
            )
        if left is lc and any(p is not None and q is not None for p, q in zip(a, b, strict=True)):
            refuse(
                name,
                [x, y],
                "Contracting dimensions are sharded and it is ambiguous how the output should be "
                f"sharded: {a} and {b}",
                _RESHARD,
            )
    both = [
        x.split[i] if x.split[i] is not None else y.split[j] for i, j in zip(lb, rb, strict=True)
    ]
    return (*both, *kept(x, (*lb, *lc)), *kept(y, (*rb, *rc)))


# Reshapes.


def reshaped(x: Any, shape: Sequence[Any]) -> Split:
    """Return the split of an array whose elements are put in another shape, in the same order.

    Axes that are kept keep their splits. The splits of merged axes split the result; the split of
    an axis that becomes several splits the first of them.
    """
    found: list[Any] = [None] * len(shape)
    for old, new in _groups(x.shape, shape):
        names = [x.split[i] for i in old]
        if not any(names):
            continue
        many_old = [i for i in old if x.shape[i] != 1]
        many_new = [i for i in new if shape[i] != 1]
        if len(many_old) == len(many_new) == 1:
            found[many_new[0]] = x.split[many_old[0]]
        elif not _handed_on(x, many_old, shape, many_new, found):
            refuse(
                "reshape",
                [x],
                "This reshape is not supported: the sharding of the result is ambiguous. Got new "
                f"sizes {tuple(shape)}",
                "say how the result is to be sharded: x.reshape(shape, out_sharding=P(...))",
            )
    return tuple(found)


def _groups(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of axes, before and after, that have the same elements."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        old, new = [], []
        if i < len(before):
            old.append(i)
            i += 1
        if j < len(after):
            new.append(j)
            j += 1
        while True:
            a = math.prod(before[k] for k in old)
            b = math.prod(after[k] for k in new)
            if a == b:
                break
            if not (isinstance(a, int) and isinstance(b, int)) or 0 in (a, b):
                # Named sizes, or empty arrays: one group of the remaining axes.
                old += range(i, len(before))
                new += range(j, len(after))
                i, j = len(before), len(after)
                break
            if a < b:
                old.append(i)
                i += 1
            else:
                new.append(j)
                j += 1
        found.append((old, new))
    return found


def _handed_on(
    x: Any, old: Sequence[int], shape: Sequence[Any], new: Sequence[int], found: list[Any]
) -> bool:
    """Assign the mesh axes that split a group of axes to the axes after the reshape, in order.

    Returns False if they cannot: if one is whole before one that is split, or sizes do not divide.
    """
    if len(old) > 1 and len(new) > 1:
        return False
    entries = [x.split[axis] for axis in old]
    while entries and entries[-1] is None:
        entries.pop()
    if None in entries:
        return False
    names = [name for entry in entries for name in axes_of(entry)]
    sizes = mesh_of([x]).shape
    for axis in new:
        rest, taken = shape[axis], []
        while names and rest > 1:
            rest, more = divmod(rest, sizes[names[0]])
            if more:
                return False
            taken.append(names.pop(0))
        found[axis] = None if not taken else taken[0] if len(taken) == 1 else tuple(taken)
    return not names


# Windows.


def gathered(x: Any, indices: Any, window: Any, slice_sizes: Sequence[Any]) -> Split:
    """Return the split of windows that are read from an array."""
    read_whole = all(
        slice_sizes[axis] == x.shape[axis] or x.split[axis] is None
        for axis in range(x.ndim)
        if axis not in window.batching
    )
    rows = list(indices.split[:-1])
    others = [entry for axis, entry in enumerate(rows) if axis not in window.along]
    pairs = list(zip(window.batching, window.along, strict=True))
    if (
        not read_whole
        or any(others)
        or indices.split[-1] is not None
        or any(_differ(x.split[a], rows[b]) for a, b in pairs)
    ):
        refuse(
            "gather",
            [x, indices],
            "out sharding could not be resolved unambiguously (or would require collectives on "
            "inputs)",
            "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec, such as P('x')",
        )
    for a, b in pairs:
        rows[b] = rows[b] if rows[b] is not None else x.split[a]
    return tuple(window.arranged(rows, x.split))


def scattered(name: str, x: Any, indices: Any, updates: Any, window: Any) -> Split:
    """Return the split of an array into which windows are written."""
    inside = window.kept(x.ndim)
    rows = [a for a in range(updates.ndim) if a not in window.placed]
    triples = [
        (a, x.split[a], indices.split[b], updates.split[rows[b]])
        for a, b in zip(window.batching, window.along, strict=True)
    ]
    fits = (
        all(
            x.split[a] == updates.split[u]
            and (x.split[a] is None or x.shape[a] == updates.shape[u])
            for a, u in zip(inside, window.placed, strict=True)
        )
        and not any(x.split[a] for a in window.dropped)
        and not any(updates.split[rows[b]] for b in range(len(rows)) if b not in window.along)
        and not any(e for b, e in enumerate(indices.split) if b not in window.along)
        and not any(_differ(p, q) or _differ(q, r) or _differ(p, r) for _, p, q, r in triples)
    )
    if not fits:
        refuse(
            name,
            [x, indices, updates],
            "out sharding could not be resolved unambiguously (or would require collectives on "
            "inputs)",
            "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec, such "
            "as P('x')",
        )
    found = list(x.split)
    for a, p, q, r in triples:
        found[a] = next((entry for entry in (p, q, r) if entry is not None), None)
    return tuple(found)


def _differ(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a != b
