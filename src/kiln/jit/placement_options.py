"""The options of a jitted function about memory and devices, applied to one call signature.

`donate_*`, `device`, `in_shardings` and `out_shardings` refer to arguments and results; a program
has numbered inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.records import Record
from kiln.base.source import current_source, name_of
from kiln.base.tree import (
    broadcast_prefix,
    prefix_errors,
    tree_flatten_with_path,
    tree_unflatten,
)
from kiln.core.trace import aval_of
from kiln.execution.placement import PlacementRequest
from kiln.ir.shardings.mesh import UNCONSTRAINED, PartitionSpec
from kiln.ir.shardings.sharding import Sharding, require_fit
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import ArgumentBinding, Call
from kiln.jit.signatures.parameters import NONE_CHOSEN, Chosen
from kiln.jit.signatures.signature import Arguments
from kiln.ops.sharding import put, resolved, with_sharding_constraint, without_layout


class _ByPositionOnly(ArgumentBinding):
    """Rejects keyword arguments: in_shardings refers to arguments by position."""

    __slots__ = ()

    def by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call without keywords unchanged.

        Raises: ValueError for a call with keywords.
        """
        if not kwargs:
            return args, kwargs
        raise ValueError(
            three_lines(
                f"call of {name_of(self._fun)} with keyword arguments {sorted(kwargs)} at "
                f"{current_source()}",
                "pjit does not support kwargs when in_shardings is specified",
                "pass them by position, or put the arguments in place with device_put",
            )
        )


class PlacementOptions(Record):
    """The options of `jit` about memory and devices."""

    donated: Chosen = NONE_CHOSEN
    device: Any = None
    in_shardings: Any = None
    out_shardings: Any = None

    def __bool__(self) -> bool:
        return bool(self.donated) or self.has_place

    @property
    def has_place(self) -> bool:
        """Whether they determine where the program runs."""
        given = (self.device, self.in_shardings, self.out_shardings)
        return any(option is not None for option in given)

    def binding(self, fun: Callable[..., Any], static: Chosen) -> ArgumentBinding:
        """Return how calls of a jitted function bind arguments to parameters."""
        kind = ArgumentBinding if self.in_shardings is None else _ByPositionOnly
        return kind(fun, static, self.donated)


NO_PLACEMENT = PlacementOptions()


def shardings_of(given: Any, option: str, fun: Callable[..., Any]) -> Any:
    """Return a pytree of shardings, with formats replaced by their shardings.

    Raises: TypeError if a leaf is not a sharding, ValueError for a layout that arrays cannot have.
    """
    pairs, tree = tree_flatten_with_path(given)
    leaves = [without_layout(leaf, f"jit of {name_of(fun)} with {option}") for _, leaf in pairs]
    for (path, _), leaf in zip(pairs, leaves, strict=True):
        if leaf is not None and not isinstance(leaf, (Sharding, PartitionSpec)):
            raise TypeError(
                three_lines(
                    f"jit of {name_of(fun)} with {option}={given!r} at {current_source()}",
                    f"{option} must hold shardings, PartitionSpecs and None, got {leaf!r} of type "
                    f"{type(leaf).__name__}" + (f" at {''.join(map(str, path))}" if path else ""),
                    "write NamedSharding(mesh, PartitionSpec(...))",
                )
            )
        spec = getattr(leaf, "spec", leaf)
        if isinstance(spec, PartitionSpec) and UNCONSTRAINED in spec.entries:
            raise ValueError(
                three_lines(
                    f"jit of {name_of(fun)} with {option}={given!r} at {current_source()}",
                    f"Unconstrained dims are not allowed when passed to pjit: {option} has {spec}",
                    "leave the option out, or use with_sharding_constraint inside",
                )
            )
    return tree_unflatten(tree, leaves)


def request_for(
    placement: PlacementOptions, call: Arguments, recording: Recording
) -> PlacementRequest:
    """Return the placement request for one program, given a call that it runs.

    Raises: ValueError for shardings whose structure does not fit the arguments or the results.
    """
    fun, hidden = call.fun, len(recording.consts)
    args, kwargs, places = call.structure()
    paths = [path for path, _ in tree_flatten_with_path((args, kwargs))[0]]
    roots = [places[p[1].idx] if p[0].idx == 0 else p[1].key for p in paths]
    # The search for the origin of a result that is not finite runs the program again: it needs the
    # arguments.
    donating = not options().checks_values
    chosen = {*placement.donated.argnums, *placement.donated.argnames} if donating else ()
    donated = tuple([i + hidden for i, root in enumerate(roots) if root in chosen])
    ins: tuple[Sharding | None, ...] = ()
    if placement.in_shardings is not None:
        found = _spread(fun, placement.in_shardings, args, "in_shardings", "arguments")
        ins = (*[None] * hidden, *found)
    outs: tuple[Sharding | None, ...] = ()
    if placement.out_shardings is not None:
        count = len(recording.jaxpr.outvars)
        result = tree_unflatten(recording.out_tree, range(count))
        outs = tuple(_spread(fun, placement.out_shardings, result, "out_shardings", "result"))
    return PlacementRequest(donated, placement.device, ins, outs)


def _spread(
    fun: Callable[..., Any], shardings: Any, full: Any, option: str, what: str
) -> list[Sharding | None]:
    if option == "in_shardings" and isinstance(shardings, list):
        shardings = tuple(shardings)

    def is_leaf(s: Any) -> bool:
        return s is None

    if option == "in_shardings" and isinstance(shardings, tuple) and len(shardings) != len(full):
        raise ValueError(
            three_lines(
                f"call of {name_of(fun)} with {len(full)} arguments and a tuple of "
                f"{len(shardings)} in_shardings at {current_source()}",
                "in_shardings must be a tree prefix of the tuple of positional arguments, and is "
                f"the wrong length: {len(shardings)} for {len(full)} arguments",
                "give one entry per argument that is not static, or one sharding for all",
            )
        )
    try:
        found = broadcast_prefix(shardings, full, is_leaf)
    except ValueError:
        errors = prefix_errors(shardings, full, is_leaf, option)
        wrong = "; ".join(", ".join(str(e).splitlines()) for e in errors)
        raise ValueError(
            three_lines(
                f"call of {name_of(fun)} with {option}={shardings!r} at {current_source()}",
                f"{option} must be a tree prefix of the {what}: {wrong}",
                f"give one sharding for all, or a pytree with the structure of the {what}",
            )
        ) from None
    return [None if s is None else resolved(s, option) for s in found]


def constrained(values: Sequence[Any], shardings: Sequence[Sharding | None]) -> list[Any]:
    """Return values of the program being recorded, sharded as requested.

    Raises: ValueError for a value that cannot be sharded this way.
    """
    found = []
    for x, sharding in zip(values, shardings or [None] * len(values), strict=True):
        if sharding is not None:
            aval = aval_of(x)
            asked = f"{aval}, sharded as requested by a nested jitted function"
            require_fit(sharding, aval.shape, f"{asked}, at {current_source()}")
            change = put if sharding.is_explicit else with_sharding_constraint
            x = change(x, sharding)
        found.append(x)
    return found
