"""The base class of sparse arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.tree import register_pytree_node
from kiln.core.trace import Tracer


class JAXSparse:
    """A sparse array: a pytree of buffers, and a shape.

    Subclasses name their buffers in `_buffers`, the stored values first, and their flags in
    `_stated`.
    """

    data: Any
    shape: tuple[int, ...]

    _buffers: tuple[str, ...] = ("data",)
    _stated: tuple[str, ...] = ("shape",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int], **stated: bool) -> None:
        for name, buffer in zip(self._buffers, args, strict=True):
            setattr(self, name, jnp.asarray(buffer))
        self.shape = tuple(int(n) for n in shape)
        vars(self).update(stated)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self.data.dtype

    @property
    def nse(self) -> int:
        """The number of stored elements, in each batch."""
        return int(self.data.shape[0])

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._buffers)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            text = f"{name}({self.dtype}{list(self.shape)}, nse={self.nse}{self._layout()})"
        except (AttributeError, IndexError, TypeError):
            # In a pytree with leaves that are not arrays.
            text = f"{name}(<invalid>)"
        return f"{type(self.data).__name__}[{text}]" if isinstance(self.data, Tracer) else text

    def _layout(self) -> str:
        return ""

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the buffers, and the flags."""
        return self._bufs, {name: getattr(self, name) for name in self._stated}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Any:
        """Build an array from buffers, without checks."""
        if set(aux_data) != set(cls._stated):
            raise ValueError(f"{cls.__name__}.tree_unflatten: invalid {aux_data=}")
        out = object.__new__(cls)
        vars(out).update(zip(cls._buffers, children, strict=True))
        vars(out).update(aux_data)
        return out

    def block_until_ready(self) -> Any:
        """Wait until the buffers are computed; return the array."""
        for buffer in self._bufs:
            buffer.block_until_ready()
        return self

    def transpose(self, axes: Any = None) -> Any:
        """Return the array with its axes permuted."""
        raise self._missing("transpose")

    def todense(self) -> Any:
        """Return the array with all its elements."""
        raise self._missing("todense")

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__}.{what}\nthis layout does not have it\n"
            "use BCOO, which has most operations, or todense()"
        )


def _absent(name: str) -> Callable[..., Any]:
    def absent(self: JAXSparse, *args: Any, **kwargs: Any) -> Any:
        raise self._missing(name)

    absent.__name__ = name
    return absent


for _name in ("sum", "reshape", "astype", "__getitem__", "__neg__", "__pos__", "__abs__"):
    setattr(JAXSparse, _name, _absent(_name))
for _name in ("matmul", "mul", "add", "sub", "truediv"):
    setattr(JAXSparse, f"__{_name}__", _absent(f"__{_name}__"))
    setattr(JAXSparse, f"__r{_name}__", _absent(f"__r{_name}__"))


def register_layout(cls: type[JAXSparse]) -> type[JAXSparse]:
    """Register a class of sparse arrays as a pytree node; return the class."""

    def unflatten(stated: tuple[Any, ...], buffers: Sequence[Any]) -> Any:
        return cls.tree_unflatten(dict(zip(cls._stated, stated, strict=True)), buffers)

    def flatten(x: Any) -> tuple[Any, Any]:
        # Hashable, unlike the dict of `tree_flatten`.
        return x._bufs, tuple(getattr(x, name) for name in cls._stated)

    register_pytree_node(cls, flatten, unflatten)
    return cls
