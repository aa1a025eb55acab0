"""BCOO: batched coordinates. The class, and the checks of its buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from kiln import numpy as jnp
from kiln.api.mapping.mapped_containers import register_container
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.experimental.sparse.array import JAXSparse, register_layout
from kiln.experimental.sparse.util import SparseInfo


class BCOOProperties(NamedTuple):
    """The number of axes of each kind, and of stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def invalid(what: str, wrong: str, remedy: str) -> ValueError:
    """Return the error for buffers or arguments that do not fit.

    `what` was requested, `wrong` says why it is invalid, `remedy` what to write instead.
    """
    return ValueError(three_lines(f"{what} at {current_source()}", wrong, remedy))


def not_done(what: str, why: str, remedy: str = "call sparse.todense() first") -> Exception:
    """Return the error for unsupported operations on sparse arrays.

    `why` is the reason, `remedy` what to write instead.
    """
    return NotImplementedError(three_lines(f"{what} at {current_source()}", why, remedy))


def _repeats(found: Sequence[int], whole: Sequence[int]) -> bool:
    return all(n in (1, m) for n, m in zip(found, whole, strict=True))


def check_indices(indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """Return the properties of indices into an array.

    Raises: ValueError if they do not fit the shape.
    """
    n_batch = indices.ndim - 2
    n_dense = len(shape) - n_batch - indices.shape[-1] if n_batch >= 0 else -1
    batch = tuple(shape[: max(n_batch, 0)])
    if not jnp.issubdtype(indices.dtype, jnp.integer) or n_dense < 0:
        raise invalid(
            f"BCOO of shape {tuple(shape)}",
            f"indices of type {indices.dtype}{list(indices.shape)} do not fit",
            "pass integers of shape [*batch, nse, n_sparse]",
        )
    if not _repeats(indices.shape[:n_batch], batch):
        raise invalid(
            f"BCOO of shape {tuple(shape)}",
            f"indices batch dimensions not compatible: {indices.shape[:n_batch]} for {batch}",
            "batch axes have the size of the array's, or 1",
        )
    return BCOOProperties(n_batch, indices.shape[-1], n_dense, indices.shape[-2])


def check_buffers(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """Return the properties of an array's buffers.

    Raises: ValueError if they do not fit the shape.
    """
    props = check_indices(indices, shape)
    n_batch = props.n_batch
    expected = (props.nse, *shape[n_batch + props.n_sparse :])
    fits = data.ndim >= n_batch and _repeats(data.shape[:n_batch], shape[:n_batch])
    if not fits or data.shape[n_batch:] != expected:
        raise invalid(
            f"BCOO of shape {tuple(shape)} with indices of shape {indices.shape}",
            f"Invalid data.shape={data.shape}: expected {(*shape[:n_batch], *expected)}, with "
            "batch dimensions that may be 1",
            "pass one value, or one dense block, for each index",
        )
    return props


def padding(shape: Sequence[int], props: BCOOProperties, dtype: Any) -> Any:
    """Return the index of padding: just out of bounds along all sparse axes.

    Shapes: (n_sparse,); `props` determine which axes of the shape these are.
    """
    inner = shape[props.n_batch : props.n_batch + props.n_sparse]
    return np.array(inner, dtype=dtype)


def beside(limits: Any, indices: Any) -> Any:
    """Return one number per sparse axis, reshaped to broadcast against indices.

    Shapes: `limits` (n_sparse,), indices (..., nse, n_sparse) -> (1, ..., 1, n_sparse).
    """
    return limits.reshape((1,) * (indices.ndim - 1) + limits.shape)


class BCOO(JAXSparse):
    """A sparse array in coordinate format: stored values, and the index of each.

    The axes of an array are batch axes, then sparse axes, then dense ones. `data` has the shape
    [*batch, nse, *dense], `indices` [*batch, nse, n_sparse]; batch axes of size 1 are broadcast.
    Elements with equal indices are summed; those with an index out of bounds are padding.

    Raises: ValueError if the buffers do not fit the shape.
    Source: the documentation of `jax.experimental.sparse`.
    Example:
        >>> sparse.BCOO.fromdense(jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
        BCOO(float32[2, 3], nse=3)
    """

    indices: Any
    indices_sorted: bool
    unique_indices: bool

    # These, and the operators, are defined in `methods.py`.
    fromdense: ClassVar[Callable[..., BCOO]]
    from_scipy_sparse: ClassVar[Callable[..., BCOO]]
    _eye: ClassVar[Callable[..., BCOO]]
    sort_indices: ClassVar[Callable[..., BCOO]]
    sum_duplicates: ClassVar[Callable[..., BCOO]]
    update_layout: ClassVar[Callable[..., BCOO]]

    _buffers = ("data", "indices")
    _stated = ("shape", "indices_sorted", "unique_indices")

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__(
            args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices
        )
        check_buffers(self.data, self.indices, self.shape)

    @property
    def nse(self) -> int:
        """The number of stored elements, in each batch."""
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of leading batch axes."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of axes that indices are stored for."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of trailing dense axes."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @property
    def props(self) -> BCOOProperties:
        """The properties of the buffers."""
        return BCOOProperties(self.n_batch, self.n_sparse, self.n_dense, self.nse)

    @property
    def sparse_shape(self) -> tuple[int, ...]:
        """The sizes of the sparse axes."""
        return self.shape[self.n_batch : self.n_batch + self.n_sparse]

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The sizes of the dense axes."""
        return self.shape[self.n_batch + self.n_sparse :]

    def _layout(self) -> str:
        batch = f", n_batch={self.n_batch}" if self.n_batch else ""
        return batch + (f", n_dense={self.n_dense}" if self.n_dense else "")

    def element_along(self, axis: int) -> BCOO:
        """Return an array with the shape of one element of a batch, for `vmap`."""
        if not 0 <= axis < self.n_batch:
            raise invalid(
                f"vmap of {self!r}",
                f"Cannot map in_axis={axis} for BCOO array with n_batch={self.n_batch}",
                "map batch axes; update_layout(n_batch=...) makes them",
            )
        return self._stating(self.shape[:axis] + self.shape[axis + 1 :])

    def stack_along(self, axis: int, size: Any) -> BCOO:
        """Return an array with the shape of a batch of such elements, for `vmap`."""
        # The buffers have the new axis already.
        if not 0 <= axis < self.n_batch:
            raise invalid(
                f"the result of vmap, a BCOO array with n_batch={self.n_batch - 1}",
                f"BCOO: cannot add out_axis={axis}",
                "batch axes are the leading ones",
            )
        return self._stating((*self.shape[:axis], size, *self.shape[axis:]))

    def _stating(self, shape: tuple[int, ...]) -> BCOO:
        stated = (shape, self.indices_sorted, self.unique_indices)
        return self.tree_unflatten(dict(zip(self._stated, stated, strict=True)), self._bufs)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if min(n_sparse, n_dense, n_batch, nse) < 0:
            raise invalid(
                f"empty({shape})",
                f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}",
                "numbers of axes must not be negative, or exceed those of the shape",
            )
        batch, dense = shape[:n_batch], shape[n_batch + n_sparse :]
        none = np.array(shape[n_batch : n_batch + n_sparse], dtype=index_dtype)
        return cls(
            (
                jnp.zeros((*batch, nse, *dense), dtype),
                jnp.broadcast_to(none, (*batch, nse, n_sparse)),
            ),
            shape=shape,
            indices_sorted=True,
            unique_indices=True,
        )


register_layout(BCOO)
register_container(BCOO)
