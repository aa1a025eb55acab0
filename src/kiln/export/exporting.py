"""`export`: from a jitted function and the types of its arguments to an `Exported`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from kiln.api.arrays import devices
from kiln.api.derivatives.linear import vjp
from kiln.api.jit import jit
from kiln.api.platforms import EXPORTED_FOR
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_leaves
from kiln.control.regions.region import merge, select_by
from kiln.core.engines.artifacts import artifact_compiler
from kiln.core.engines.engine import Placement, Program
from kiln.core.staging import eval_jaxpr
from kiln.export.boundary import nothing, with_words
from kiln.export.container import Shardings
from kiln.export.exported import (
    DisabledSafetyCheck,
    Exported,
    maximum_supported_calling_convention_version,
)
from kiln.export.types import without_devices
from kiln.ir.shardings.sharding import NamedSharding, Sharding, named_like
from kiln.ir.types import ShapedArray
from kiln.jit.function import JitFunction
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.jit.stages.traced import Traced
from kiln.jit.stages.whole_program import WholeProgram

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def default_export_platform() -> str:
    """Return the default platform of exports."""
    return str(devices()[0].platform)


@api_boundary
def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """Return a function that exports a jitted function for given arguments or their types.

    `platforms` are from `cpu`, `cuda`, `rocm`, `tpu`. Sizes of the types may be named
    (`symbolic_shape`). Functions of kiln such as `jnp.sin` need not be jitted.

    Raises: ValueError for a function that is not jitted, or an unknown platform; when called,
        NotImplementedError for a program with callbacks to Python.

    Example:
        >>> exported = kiln.export.export(kiln.jit(jnp.sin))(jnp.ones(3))
        >>> exported.in_avals
        (ShapedArray(float32[3]),)
    """
    if _is_of_kiln(fun_jit):
        fun_jit = jit(fun_jit)
    if not isinstance(fun_jit, JitFunction):
        raise ValueError(
            three_lines(
                f"export({fun_jit!r:.100}) at {current_source()}",
                "Function to be exported must be the result of `jit`",
                "write export(kiln.jit(f))(*args)",
            )
        )
    if _override_lowering_rules:
        raise NotImplementedError(
            three_lines(
                f"export of {fun_jit.__name__} with _override_lowering_rules at {current_source()}",
                "kiln does not lower primitives by JAX's rules",
                "leave them out",
            )
        )
    wanted = (default_export_platform(),) if platforms is None else tuple(platforms)
    unknown = [platform for platform in wanted if platform not in _PLATFORMS]
    if unknown or not wanted or len({*wanted}) != len(wanted):
        raise ValueError(
            three_lines(
                f"export of {fun_jit.__name__} with platforms={wanted} at {current_source()}",
                f"platforms must be distinct, from {', '.join(_PLATFORMS)}",
                "write platforms=('cpu', 'cuda')",
            )
        )
    checks = tuple(disabled_checks)

    @api_boundary
    def do_export(*args: Any, **kwargs: Any) -> Exported:
        with EXPORTED_FOR(() if wanted == (default_export_platform(),) else wanted):
            traced = fun_jit.trace(*args, **kwargs)
        return exported_of(traced, wanted, checks)

    return do_export


def _is_of_kiln(fun: Any) -> bool:
    """Tell whether a function is kiln's, such as `jnp.sin`: in JAX these are jitted."""
    module = getattr(fun, "__module__", None) or ""
    return not isinstance(fun, JitFunction) and module.startswith("kiln.") and callable(fun)


def exported_of(
    traced: Traced, platforms: tuple[str, ...], checks: tuple[DisabledSafetyCheck, ...]
) -> Exported:
    """Return a traced function as a portable program.

    `platforms` are those that it is lowered for, `checks` the disabled safety checks.
    Raises: the errors of lowering.
    """
    whole = traced.whole_program()
    in_avals = tuple(tree_leaves(traced.in_avals))
    out_avals = tuple(tree_leaves(traced.out_avals))
    program = whole.program
    targets = [check.is_custom_call() for check in checks]
    written = artifact_compiler().artifact(
        dataclasses.replace(program, jaxpr=with_words(program.jaxpr)),
        platforms,
        [target for target in targets if target is not None],
    )
    placement = program.placement
    count = len(placement.devices) if placement is not None else 1
    given, returned = _shardings(whole, len(in_avals), len(out_avals))

    def get_vjp(primal: Exported) -> Exported:
        return _exported_vjp(primal, whole, (given, returned))

    return Exported(
        fun_name=traced.fun_name,
        in_tree=traced.in_tree,
        in_avals=in_avals,
        out_tree=traced.out_tree,
        out_avals=out_avals,
        _in_named_shardings=_named(given),
        _out_named_shardings=_named(returned),
        nr_devices=count,
        platforms=platforms,
        disabled_safety_checks=checks,
        mlir_module_serialized=written.stored,
        calling_convention_version=maximum_supported_calling_convention_version,
        module_kept_var_idx=whole.kept,
        uses_global_constants=written.is_refined,
        _get_vjp=get_vjp,
    )


Placed = Sequence[NamedSharding | None]


def _shardings(whole: WholeProgram, inputs: int, outputs: int) -> tuple[Placed, Placed]:
    """Return the shardings of arguments and results over devices; None for those on one device."""
    program, placement = whole.program, whole.program.placement
    given: list[NamedSharding | None] = [None] * inputs
    returned: list[NamedSharding | None] = [None] * outputs
    if placement is None or len(placement.devices) == 1:
        return given, returned
    for i, var, sharding in zip(
        whole.kept, program.jaxpr.invars, placement.in_shardings, strict=True
    ):
        given[i] = _by_names(sharding, var.aval, placement)
    results = zip(program.jaxpr.out_avals, placement.out_shardings, strict=True)
    for i, (aval, wanted) in enumerate(results):
        if wanted is not None:
            returned[i] = _by_names(wanted, aval, placement)
    return given, returned


def _by_names(sharding: Sharding, aval: ShapedArray, placement: Placement) -> NamedSharding:
    if sharding.unreduced:
        raise NotImplementedError(
            three_lines(
                f"export of a program with an array sharded by {sharding} at {current_source()}",
                "arguments and results of exported programs cannot be partial sums",
                "add them up inside, or before: kiln.reshard(x, P(...)) without unreduced=",
            )
        )
    if isinstance(sharding, NamedSharding):
        return sharding
    return named_like(sharding.devices, sharding.blocks(aval.ndim), placement.mesh)


def _named(shardings: Placed) -> Shardings:
    return tuple([s and without_devices(s) for s in shardings])


def _exported_vjp(
    primal: Exported, whole: WholeProgram, shardings: tuple[Placed, Placed]
) -> Exported:
    """Return the exported derivative: from arguments and output cotangents to input cotangents."""
    program: Program = whole.program
    count = len(primal.in_avals)
    moving_in = [_is_moving(aval) for aval in primal.in_avals]
    moving_out = [_is_moving(aval) for aval in primal.out_avals]

    def fun_vjp(*values: Any) -> Any:
        leaves, cotangents = values[:count], values[count:]

        def run(moved: Sequence[Any]) -> list[Any]:
            whole_leaves = merge(moving_in, moved, select_by(moving_in, leaves, False))
            outs = eval_jaxpr(program.jaxpr, (), *[whole_leaves[i] for i in whole.kept])
            return select_by(moving_out, outs)

        _, pull_back = vjp(run, select_by(moving_in, leaves))
        (pulled,) = pull_back(select_by(moving_out, cotangents))
        still = [a for a, moves in zip(primal.in_avals, moving_in, strict=True) if not moves]
        return tuple(merge(moving_in, pulled, [nothing(aval) for aval in still]))

    types = [*primal.in_avals, *[aval.tangent() for aval in primal.out_avals]]
    placed: dict[str, Any] = {}
    if primal.nr_devices > 1:
        given, returned = shardings
        placed = {"in_shardings": (*given, *returned), "out_shardings": tuple(given)}
    return export(
        jit(fun_vjp, **placed),
        platforms=primal.platforms,
        disabled_checks=primal.disabled_safety_checks,
    )(*[_struct(aval) for aval in types])


def _is_moving(aval: ShapedArray) -> bool:
    return bool(aval.tangent().dtype != dtypes.float0)


def _struct(aval: ShapedArray) -> ShapeDtypeStruct:
    kind = dtypes.float0 if aval.dtype == dtypes.float0 else aval.dtype
    return ShapeDtypeStruct(aval.shape, kind, weak_type=aval.weak_type)
