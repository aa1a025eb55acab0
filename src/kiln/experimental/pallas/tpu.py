"""Names used by kernels written for TPUs, as far as they are meaningful on a CPU."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from kiln.core.array_type import DTypeLike
from kiln.core.ref import Ref, RefView
from kiln.experimental.pallas.masked import load as _load
from kiln.experimental.pallas.masked import store as _store
from kiln.experimental.pallas.specs import CompilerParams as _Params
from kiln.experimental.pallas.specs import GridSpec, MemoryRef, buffer, no_block_spec

__all__ = [
    "ARBITRARY",
    "CMEM",
    "CORE_PARALLEL",
    "HBM",
    "PARALLEL",
    "SMEM",
    "SUBCORE_PARALLEL",
    "VMEM",
    "VMEM_SHARED",
    "CompilerParams",
    "GridDimensionSemantics",
    "InterpretParams",
    "MemorySpace",
    "PrefetchScalarGridSpec",
    "load",
    "store",
]


class MemorySpace(enum.Enum):
    """Kinds of memory of a TPU, all equivalent here; a call returns the description of a buffer."""

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    HBM = "hbm"

    def __call__(self, shape: Sequence[int], dtype: DTypeLike) -> MemoryRef:
        """Return the description of a buffer."""
        return buffer(shape, dtype, self)

    def __str__(self) -> str:
        return self.value


VMEM = MemorySpace.VMEM
VMEM_SHARED = MemorySpace.VMEM_SHARED
SMEM = MemorySpace.SMEM
CMEM = MemorySpace.CMEM
HBM = MemorySpace.HBM


class GridDimensionSemantics(enum.Enum):
    """How the programs along an axis may run. Here they run sequentially."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL = GridDimensionSemantics.PARALLEL
CORE_PARALLEL = GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL = GridDimensionSemantics.SUBCORE_PARALLEL
ARBITRARY = GridDimensionSemantics.ARBITRARY


class CompilerParams(_Params):
    """Parameters of the compiler for TPUs. Accepted, without effect."""


class InterpretParams(_Params):
    """Parameters of a simulation of TPUs: `interpret=InterpretParams()` means `interpret=True`."""


class PrefetchScalarGridSpec(GridSpec):
    """A `GridSpec` whose index maps take the first arguments of the call.

    References to these arguments are passed to index maps after the program ids, and to the kernel
    first; `in_specs` are those of the other arguments.
    """

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch


def load(ref: Ref | RefView, *, mask: Any = None) -> Any:
    """Return the contents of a reference or a view, undefined where the mask is false.

    `ref` may be a view, such as `ref.at[0]`.
    """
    return _load(ref, mask=mask)


def store(ref: Ref | RefView, val: Any, *, mask: Any = None) -> None:
    """Write to a reference or a view where the mask is true.

    `val` is broadcast to the shape of `ref`.
    """
    _store(ref, None, val, mask=mask)
