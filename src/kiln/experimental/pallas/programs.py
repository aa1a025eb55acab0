"""Programs of a grid: the position of the current one, and how many there are.

A kernel is recorded once, with its program ids as inputs, which `program_id` returns.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.trace import axes_bound


class Grid(NamedTuple):
    """The program ids, and the sizes of the axes, which may be traced."""

    ids: tuple[Any, ...]
    sizes: tuple[Any, ...]


class GridAxis(NamedTuple):
    """A named axis of the grid, which a kernel may query by its name."""

    number: int

    def position(self) -> Any:
        """Return the position of the program that is being traced."""
        return program_id(self.number)


def grid_axes_bound(names: Sequence[Any], sizes: Sequence[Any]) -> AbstractContextManager[None]:
    """Bind the names of the named axes of a grid.

    Raises: NotImplementedError if the size of such an axis is traced.
    """
    named = [(i, name) for i, name in enumerate(names) if name is not None]
    for i, name in named:
        if not isinstance(sizes[i], int):
            raise NotImplementedError(
                three_lines(
                    f"pallas_call with an axis named {name!r} at {current_source()}",
                    "its size is unknown while the kernel is traced",
                    "pass the size without a name, and use pl.program_id(axis)",
                )
            )
    return axes_bound([(name, sizes[i], GridAxis(i)) for i, name in named])


class _Here(threading.local):
    """The grid of the kernel that this thread records."""

    grid: Grid | None = None


_here = _Here()


class in_grid(_runtime.Assigned):
    """Set the grid whose programs are recorded, until the context ends."""

    def __new__(cls, ids: Sequence[Any], sizes: Sequence[Any]) -> Self:
        """Set the ids and the sizes."""
        return super().__new__(cls, _here, "grid", Grid(tuple(ids), tuple(sizes)), None)


def program_id(axis: int) -> Any:
    """Return the position of a kernel's program along an axis of the grid, as an int32.

    Raises: RuntimeError outside a kernel; ValueError for an axis that the grid does not have.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> def number(out):
        ...     out[pl.program_id(0)] = 10 * pl.program_id(0)
        >>> pl.pallas_call(number, out_shape=kiln.ShapeDtypeStruct((3,), jnp.int32), grid=3)()
        Array([ 0, 10, 20], dtype=int32)
    """
    return _grid("program_id", axis).ids[axis]


def num_programs(axis: int) -> Any:
    """Return the size of the grid along an axis: an int if it is known during tracing.

    Raises: the errors of `program_id`.
    """
    return _grid("num_programs", axis).sizes[axis]


def _grid(what: str, axis: int) -> Grid:
    grid = _here.grid
    asked = f"{what}({axis!r}) at {current_source()}"
    if grid is None:
        raise RuntimeError(
            three_lines(
                asked,
                "no kernel is being traced, and only programs of a grid have positions",
                "call it in a function that is passed to pallas_call",
            )
        )
    if not -len(grid.ids) <= axis < len(grid.ids):
        sizes = ", ".join(map(str, grid.sizes))
        raise ValueError(
            three_lines(
                asked,
                f"Axis {axis} is out of bounds for grid ({sizes})",
                f"use an axis from 0 to {len(grid.ids) - 1}" if grid.ids else "pass grid=(n,)",
            )
        )
    return grid
