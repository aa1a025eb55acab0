"""Specifications of blocks, grids and scratch buffers.

Plain records made by users; `blocks.py` checks them against the types of arrays.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import DTypeLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Size


@dataclasses.dataclass(frozen=True)
class Blocked:
    """An axis divided into blocks of this size: the index map returns the number of the block."""

    block_size: Any


@dataclasses.dataclass(frozen=True)
class Element:
    """A window of this size along an axis: the index map returns its first element.

    `padding` is the number of undefined elements before and after the axis.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Squeezed:
    """One position along an axis that the kernel's reference does not have; None is equivalent."""


squeezed = Squeezed()
BlockDim = Blocked | Element | Squeezed


@dataclasses.dataclass
class BlockSpec:
    """The division of an array: the block of a program is at `index_map(*program_ids)`.

    Entries of `block_shape` are sizes, None for a squeezed axis, or `Blocked`, `Element`,
    `squeezed`. Without a shape, a block is the whole array; without an index map, all programs use
    the first block. `memory_space` and `pipeline_mode` have no effect.
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    memory_space: Any = dataclasses.field(default=None, kw_only=True)
    pipeline_mode: Any = None

    def replace(self, **changes: Any) -> BlockSpec:
        """Return a copy with some fields replaced."""
        return dataclasses.replace(self, **changes)


class NoBlockSpec:
    """The class of `no_block_spec`."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()
"""In place of a `BlockSpec` or a tree of them: whole arrays."""


class GridSpec:
    """A grid with the specifications of inputs, outputs and scratch buffers.

    `grid` is a size, or a tuple of them, which may be traced; an axis with a name is `(name,
    size)`, and the kernel may call `lax.axis_index(name)` and `lax.axis_size(name)`.
    `scratch_shapes` is a sequence of `MemoryRef`s, or a dict of them, which are passed by name.

    Raises: ValueError for `in_specs` that are not a sequence, and for a grid with sizes that are
        not integers.
    """

    num_scalar_prefetch = 0

    def __init__(
        self,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        if in_specs is not no_block_spec and not isinstance(in_specs, Sequence):
            raise ValueError(
                three_lines(
                    f"pallas_call with in_specs={in_specs!r:.60} at {current_source()}",
                    f"`in_specs` must be a tuple or a list. Found: {in_specs!r:.60}",
                    "pass one for each argument: in_specs=[spec]",
                )
            )
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs = tuple(out_specs) if isinstance(out_specs, list) else out_specs
        self.scratch_shapes = scratch_shapes
        axes = grid if isinstance(grid, Sequence) else (grid,)
        named = [isinstance(axis, tuple) and len(axis) == 2 for axis in axes]
        pairs = zip(axes, named, strict=True)
        self.grid_names = tuple([axis[0] if is_named else None for axis, is_named in pairs])
        pairs = zip(axes, named, strict=True)
        self.grid = _sizes(tuple([axis[1] if is_named else axis for axis, is_named in pairs]), grid)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(grid={self.grid}, in_specs={self.in_specs}, "
            f"out_specs={self.out_specs}, scratch_shapes={self.scratch_shapes})"
        )


def _sizes(sizes: tuple[Any, ...], grid: Any) -> tuple[Any, ...]:
    asked = f"pallas_call with grid={grid!r:.60} at {current_source()}"
    for size in sizes:
        if isinstance(size, Size):
            continue
        aval = None if isinstance(size, (str, bool)) else _integer(size)
        if aval is None or aval.shape:
            raise ValueError(
                three_lines(
                    asked,
                    f"Grid must be a tuple of integers or jax.Array, got {grid!r:.60}",
                    "pass the number of programs along each axis",
                )
            )
    return tuple([int(size) if isinstance(size, np.integer) else size for size in sizes])


def _integer(size: Any) -> Any:
    try:
        aval = aval_of(size)
    except TypeError:
        return None
    return aval if dtypes.issubdtype(aval.dtype, np.integer) else None


class MemorySpace(enum.Enum):
    """Kinds of memory, all equivalent here; a call returns the description of a buffer in it."""

    ANY = "any"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"
    DEFAULT = "default"

    def __call__(self, shape: Sequence[int], dtype: DTypeLike) -> MemoryRef:
        """Return the description of a buffer."""
        return buffer(shape, dtype, self)

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class MemoryRef:
    """The description of a buffer, for example of scratch memory."""

    inner_aval: Any
    memory_space: Any = MemorySpace.ANY

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the buffer."""
        return tuple(self.inner_aval.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the buffer."""
        return self.inner_aval.dtype


@dataclasses.dataclass(frozen=True)
class _Contents:
    shape: tuple[int, ...]
    dtype: Any


def buffer(shape: Sequence[int], dtype: DTypeLike, space: Any) -> MemoryRef:
    """Return the description of a buffer in a kind of memory.

    `space` is the kind of memory.
    """
    return MemoryRef(_Contents(tuple(shape), dtypes.check_user_dtype(dtype, "scratch")), space)


@dataclasses.dataclass(frozen=True)
class Buffered:
    """How many copies of a block a pipeline keeps. Accepted, without effect."""

    buffer_count: int
    use_lookahead: bool = False


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """The cost of a kernel, as `estimate_cost` counts it; without effect in `pallas_call`.

    Raises: ValueError unless all fields are ints.
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        for name, value in dataclasses.asdict(self).items():
            if not isinstance(value, int):
                raise ValueError(
                    three_lines(
                        f"CostEstimate({name}={value!r:.40}) at {current_source()}",
                        f"All fields in CostEstimate must be ints. {name} is not an int: "
                        f"{type(value)}({value!r:.40})",
                        f"{name}=int(...)",
                    )
                )


class CompilerParams:
    """Base class of the parameters of other compilers, which are accepted without effect."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters

    def __repr__(self) -> str:
        given = ", ".join([f"{name}={value!r}" for name, value in self.parameters.items()])
        return f"{type(self).__name__}({given})"
