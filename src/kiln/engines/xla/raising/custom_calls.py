"""Custom calls: LAPACK's routines, CHLO's functions by their older names, shardings."""

from __future__ import annotations

from typing import Any

from kiln.engines.xla.raising.lapack import Call, raised_routine
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, typed
from kiln.engines.xla.stablehlo.operations import Operation

_HAS_NO_EFFECT = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape")
_CHLO = {"mhlo.topk": "chlo.top_k"}


def _custom_call(r: Raiser, operation: Operation, *xs: Any) -> Any:
    attributes = operation.attributes
    target = attributes["call_target_name"]
    if target in _HAS_NO_EFFECT and len(xs) == 1:
        return xs[0]
    if target.startswith("mhlo."):
        name = _CHLO.get(target, target.replace("mhlo.", "chlo."))
        if r.has(name):
            own = attributes.get("mhlo.attributes", {})
            return r.raised(operation._replace(name=name, attributes=own), xs)
    if target.startswith("lapack_"):
        config = attributes.get("mhlo.backend_config") or attributes.get("backend_config") or {}
        types = [typed(target, kind) for kind in operation.types]
        zeros = [r.repeated(number) == 0 for number in operation.operands]
        return raised_routine(target, Call(config, types, zeros), xs)
    raise NotRaised(f"stablehlo.custom_call @{target} has no counterpart in kiln")


RAISINGS: dict[str, Raising] = {"stablehlo.custom_call": _custom_call}
