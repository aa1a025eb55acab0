"""Functions of private modules of JAX that libraries call, implemented by kiln."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from kiln.api.arrays import devices
from kiln.base.errors import UnexpectedTracerError, UnfilteredStackTrace
from kiln.base.lazy import error_check
from kiln.base.options.config import is_settled
from kiln.base.process.identity import process_count, process_index
from kiln.base.source import EXCLUDED, api_boundary, is_left_out
from kiln.base.tree import IsLeaf
from kiln.base.tree import prefix_errors as prefix_messages
from kiln.base.tree.registry import node_classes
from kiln.control.effects.callback import effects_barrier
from kiln.control.high.hi_rules import GradAccum, NullAccum
from kiln.core.trace import state
from kiln.ir import own_effects
from kiln.ir.effects import NO_EFFECTS


def register_exclusion(path: str) -> None:
    """Hide the frames of a file in tracebacks; `include_frame` returns False for them."""
    EXCLUDED.append(path)


def include_frame(frame: types.FrameType) -> bool:
    """Tell whether a frame is the user's: neither kiln's nor in an excluded file."""
    return not is_left_out(frame)


def trace_state_clean() -> bool:
    """Tell whether no function is being traced."""
    return state.trace is state.root


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions and names of arguments that are given by either.

    Positions beyond the parameters of the signature have no names, but are kept.
    """
    numbers = None if argnums is None else _tuple_of(int, argnums)
    names = None if argnames is None else _tuple_of(str, argnames)
    known = [
        (number, name)
        for number, (name, parameter) in enumerate(sig.parameters.items())
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    if numbers is not None and names is None:
        names = tuple([name for number, name in known if number in numbers])
    if numbers is None and names is not None:
        numbers = tuple([number for number, name in known if name in names])
    return numbers or (), names or ()


def _tuple_of(kind: type, given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, kind) else tuple(given)


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None
) -> list[Callable[[str], ValueError]]:
    """Return constructors of errors, one per position where a tree is not a prefix of the other.

    A constructor takes the name of the prefix. Key paths are on lines of their own, as in JAX.
    """

    def error(position: int, name: str) -> ValueError:
        message = prefix_messages(prefix_tree, full_tree, is_leaf, name)[position]
        for before in ("at key path", "difference on key sets is"):
            message = message.replace(f"{before} ", f"{before}\n    ", 1)
        return ValueError(message)

    count = len(prefix_messages(prefix_tree, full_tree, is_leaf))
    return [partial(error, position) for position in range(count)]


def _backends() -> dict[str, Any]:
    return {"cpu": devices()[0]} if is_settled("num_cpu_devices") else {}


def _global_state() -> types.SimpleNamespace:
    """Return the parts of the distributed state that libraries read, without jaxlib's client."""
    return types.SimpleNamespace(
        client=None, process_id=process_index(), num_processes=process_count()
    )


def _of_error_check(*names: str, **others: str) -> dict[str, Callable[[], Any]]:
    places = {**dict(zip(names, names, strict=True)), **others}
    return {name: partial(getattr, error_check, place) for name, place in places.items()}


COMPUTED: dict[str, dict[str, Callable[[], Any]]] = {
    "jax._src.distributed": {"global_state": _global_state},
    "jax._src.error_check": _of_error_check(
        *("JaxValueError", "error_checking_context", "raise_if_error", "set_error_if"),
        *("unwrap_from_import", "wrap_for_export"),
        _ErrorClass="CarriedErrors",
    ),
    "jax._src.numpy.error": _of_error_check("error_checking_behavior"),
    "jax._src.xla_bridge": {"_backends": _backends},
}
"""By module and name: functions that return the current value."""

FUNCTIONS: dict[str, dict[str, Any]] = {
    "jax._src.api_util": {"infer_argnums_and_argnames": infer_argnums_and_argnames},
    "jax._src.core": {"trace_state_clean": trace_state_clean},
    "jax._src.dispatch": {"wait_for_tokens": effects_barrier},
    "jax._src.effects": {
        "Effect": own_effects.OwnEffect,
        "control_flow_allowed_effects": own_effects.control_flow_allowed_effects,
        "custom_derivatives_allowed_effects": own_effects.custom_derivatives_allowed_effects,
        "lowerable_effects": own_effects.lowerable_effects,
        "no_effects": NO_EFFECTS,
        "ordered_effects": own_effects.ordered_effects,
        "remat_allowed_effects": own_effects.remat_allowed_effects,
    },
    "jax._src.interpreters.ad": {
        "CustomVJPException": UnexpectedTracerError,
        "GradAccum": GradAccum,
        "NullAccum": NullAccum,
    },
    "jax._src.tree_util": {"_registry": node_classes, "prefix_errors": prefix_errors},
    "jax._src.traceback_util": {
        # Flax's feature switches modify the list itself.
        "_exclude_paths": EXCLUDED,
        "api_boundary": api_boundary,
        "include_frame": include_frame,
        "register_exclusion": register_exclusion,
        "UnfilteredStackTrace": UnfilteredStackTrace,
    },
}
"""By module and name."""

GONE = frozenset({"jax._src.api._infer_argnums_and_argnames"})
"""Names that JAX has removed: libraries try these first, and have fallbacks."""
