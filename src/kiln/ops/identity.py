"""Operations that return their operands, but affect how programs are transformed.

`stop_gradient` ends differentiation, `optimization_barrier` keeps compilers from moving or merging
work across it, `checkpoint_name` names a value for the policies of `checkpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kiln.base.tree import tree_flatten, tree_map, tree_unflatten
from kiln.core.absent import is_zero
from kiln.core.primitive import Primitive
from kiln.ir.types import ShapedArray
from kiln.ops.elements import elementwise
from kiln.ops.linear_op import LinearOp
from kiln.ops.out_sums import passed
from kiln.ops.shape import filled

T = TypeVar("T")


class OptimizationBarrier(Primitive):
    """Return all operands, once all of them are computed."""

    name = "optimization_barrier"
    on_keys = "move"
    multiple = True
    on_host = True

    def infer(self, *xs: Any) -> list[ShapedArray]:
        return list(xs)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return [x.split for x in xs]

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return passed(self.name, operands)

    def numpy(self, *xs: Any) -> Any:
        return list(xs)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        moving = [t for t in tangents if not is_zero(t)]
        moved = iter(self.bind(*moving))
        return self.bind(*primals), [t if is_zero(t) else next(moved) for t in tangents]

    def transpose(self, cts: Sequence[Any], *xs: Any) -> Any:
        return self.bind(*map(filled, cts))

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any]) -> Any:
        return self.bind(*xs), list(axes)


class Name(LinearOp):
    """Return the operand, named `name` for checkpoint policies."""

    name = "name"
    on_keys = "move"

    def infer(self, x: Any, *, name: str) -> ShapedArray:
        return x

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return xs[0].split

    def numpy(self, x: Any, *, name: str) -> Any:
        return x

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, name: str) -> Any:
        return self.bind(*primals, name=name), tangents[0]

    def transpose(self, ct: Any, x: Any, *, name: str) -> Any:
        return [ct]

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], *, name: str) -> Any:
        return self.bind(*xs, name=name), axes[0]


optimization_barrier_p = OptimizationBarrier()
name_p = Name()


def optimization_barrier(operand: T) -> T:
    """Return a pytree of arrays; compilers do not move or merge work across this point.

    Example:
        >>> lax.optimization_barrier(jnp.array([1, 2]))
        Array([1, 2], dtype=int32)
    """
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, optimization_barrier_p.bind(*leaves))


def checkpoint_name(x: T, name: str) -> T:
    """Name the arrays of a pytree for the policies of `checkpoint`."""
    return tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


def stop_gradient(x: T) -> T:
    """Return a pytree of arrays that differentiation treats as constants.

    Example:
        >>> float(kiln.grad(lambda x: x * lax.stop_gradient(x))(3.0))
        3.0
        >>> float(lax.stop_gradient(2.0))
        2.0
    """
    return tree_map(elementwise.stop_gradient, x)
