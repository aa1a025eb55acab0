"""What JAX's tests ask of private modules about programs, their effects and operations."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import jaxlib.lapack
import jaxlib.mlir.ir
import numpy as np
from jaxlib.mlir.dialects import stablehlo

import kiln
import kiln.debug
import kiln.numpy as jnp
from kiln.api.derivatives.saved_residuals import saved_residuals
from kiln.base import dtypes
from kiln.base.tree import broadcast_prefix
from kiln.control.regions.arguments import positional
from kiln.core.hitypes import HighRef
from kiln.core.primitive import Primitive
from kiln.core.ref import Ref
from kiln.core.slices import Slice
from kiln.core.staging import eval_jaxpr
from kiln.experimental import error_check
from kiln.interpreters.mlir import register_lowering
from kiln.ir.effects import REFS
from kiln.ir.jaxpr import ClosedJaxpr, Jaxpr
from kiln.ir.own_effects import OwnEffect
from kiln.numpy.elements.error_notes import divisor, without_nan
from kiln.ops.elements.elementwise import constant
from kiln.ops.reductions.window import select_and_gather_add_p, select_and_scatter_add_p


class OwnInputEffect(OwnEffect):
    """An effect of a test on one input. In programs of kiln it says nothing of inputs."""

    def __init__(self, index: Any) -> None:
        self.index = index


class _Lowerings:
    """The table of lowering rules, by operation."""

    def __getitem__(self, primitive: Primitive) -> Any:
        return vars(primitive)["expand"]._rules[None]

    def __setitem__(self, primitive: Primitive, rule: Any) -> None:
        register_lowering(primitive, rule)


class _OfRefs(type):
    def __instancecheck__(cls, effect: Any) -> bool:
        return effect in REFS


class RefEffect(metaclass=_OfRefs):
    """The class of effects on references: in kiln, two effects of the one class there is."""


def _close(jaxpr: Jaxpr) -> ClosedJaxpr:
    return ClosedJaxpr(jaxpr, ())


def _evaluated(primitive: Primitive) -> None:
    """Do nothing: primitives of kiln apply to arrays unless they are told otherwise."""


def _gathered(
    tangents: Any,
    operand: Any,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Any:
    return select_and_gather_add_p.bind(
        tangents,
        operand,
        select_prim=select_prim,
        window_dimensions=tuple(window_dimensions),
        window_strides=tuple(window_strides),
        padding=tuple(padding),
        base_dilation=tuple(base_dilation),
        window_dilation=tuple(window_dilation),
    )


def _scattered(
    source: Any,
    operand: Any,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Any:
    return select_and_scatter_add_p.bind(
        source,
        operand,
        select_prim=select_prim,
        window_dimensions=tuple(window_dimensions),
        window_strides=tuple(window_strides),
        padding=tuple(padding),
    )


class _Call:
    """An operation that runs a function as a program of its own: in kiln, the call of `jit`."""

    @staticmethod
    def bind(*args: Any, subfuns: Sequence[Any]) -> Any:
        """Run the function."""
        (fun,) = subfuns
        return kiln.jit(fun.call_wrapped)(*args)


_call = _Call()


class _Evaluated:
    """An operation that applies a program: in kiln, its operations."""

    @staticmethod
    def bind(*args: Any, jaxpr: ClosedJaxpr) -> list[Any]:
        """Apply the program."""
        return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


class _Tokens:
    """What JAX keeps of effects that go on. In kiln they end before the next test starts."""

    def clear(self) -> None:
        """Wait for them."""
        kiln.effects_barrier()


def _run_state(fun: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Return a function of what references hold, which returns what they hold in the end."""

    def run(values: Any) -> Any:
        refs = kiln.tree.map(kiln.new_ref, values)
        fun(refs)
        return kiln.tree.map(kiln.freeze, refs, is_leaf=lambda x: isinstance(x, (Ref, HighRef)))

    return run


def _positional(fun: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    return tuple(positional(fun, args, kwargs))


def _constant(example: Any, value: Any) -> Any:
    return constant(value, example)


def _user_dtype(dtype: Any) -> Any:
    return dtypes.check_user_dtype(dtype, "dtype")


def _platform(name: str) -> str:
    return name


class Strategy(enum.Enum):
    """How JAX reads elements at indices. kiln decides that by itself, and reads the same ones."""

    AUTO = "auto"
    GATHER = "gather"
    STATIC_SLICE = "static_slice"
    DYNAMIC_SLICE = "dynamic_slice"


def _taken(
    array: Any,
    idx: Any,
    *,
    strategy: Strategy = Strategy.AUTO,
    normalize_indices: bool = True,
    **options: Any,
) -> Any:
    return jnp.asarray(array).at[idx].get(wrap_negative_indices=normalize_indices, **options)


def _broadcast(leaves: Any, prefix: Any, full: Any) -> list[Any]:
    return broadcast_prefix(prefix.unflatten(leaves), full.unflatten([0] * full.num_leaves))


def _noted(pred: Any, /, msg: str, category: str | None = None) -> None:
    if category not in (None, "oob"):
        raise ValueError(f"Invalid category: {category}")
    if category is None or kiln.config.jax_error_checking_behavior_oob == "raise":
        error_check.set_error_if(pred, msg)


def program_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names of private modules by module."""
    policies = kiln.checkpoint_policies
    return {
        "jax._src.ad_checkpoint": {
            **{name: value for name, value in vars(policies).items() if callable(value)},
            "saved_residuals": saved_residuals,
        },
        "jax._src.debugging": {"debug_print": kiln.debug.print},
        "jax._src.api_util": {"resolve_kwargs": _positional},
        "jax._src.core": {"call": _call.bind, "call_p": _call, "closed_call_p": _call},
        "jax._src.dispatch": {"runtime_tokens": _Tokens(), "simple_impl": _evaluated},
        "jax._src.dtypes": {
            "bool_": np.bool_,
            "check_and_canonicalize_user_dtype": _user_dtype,
            "lattice_result_type": dtypes.lattice_result_type,
        },
        "jax._src.effects": {"JaxprInputEffect": OwnInputEffect},
        "jax._src.interpreters.mlir": {
            "ir": jaxlib.mlir.ir,
            "hlo": stablehlo,
            "_lowerings": _Lowerings(),
        },
        "jax._src.state.discharge": {"run_state": _run_state},
        "jax._src.state.types": {"RefEffect": RefEffect},
        "jax._src.interpreters.partial_eval": {"close_jaxpr": _close},
        "jax._src.lax.eval_jaxpr": {"eval_jaxpr_p": _Evaluated()},
        "jax._src.lax.lax": {"_const": _constant},
        "jax._src.lax.windowed_reductions": {
            "_select_and_gather_add": _gathered,
            "_select_and_scatter_add": _scattered,
        },
        "jax._src.lib": {"lapack": jaxlib.lapack},
        "jax._src.lib.mlir": {"ir": jaxlib.mlir.ir},
        "jax._src.lib.mlir.dialects": {"hlo": stablehlo},
        "jax._src.indexing": {"Slice": Slice},
        "jax._src.numpy.error": {
            "_set_error_if_nan": without_nan,
            "_set_error_if_divide_by_zero": divisor,
            "_set_error_if_with_category": _noted,
        },
        "jax._src.numpy.indexing": {"IndexingStrategy": Strategy, "rewriting_take": _taken},
        "jax._src.tree_util": {"broadcast_flattened_prefix_with_treedef": _broadcast},
        "jax._src.xla_bridge": {"canonicalize_platform": _platform},
    }
