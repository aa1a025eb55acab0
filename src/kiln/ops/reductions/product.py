"""reduce_prod. Its derivative multiplies the others from both sides, without dividing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.trace import aval_of
from kiln.ir.sizes.size import product
from kiln.ops.elements.elementwise import mul
from kiln.ops.elements.families import NUMBER, constant
from kiln.ops.indexing.slicing import pad
from kiln.ops.reductions.cumulative import cumprod
from kiln.ops.reductions.reduction import Reduce, reduction
from kiln.ops.shape import kept_axes, reduce_sum, reshape, transpose


class ReduceProduct(Reduce):
    """The product of the elements along `axes`."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, axes: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = self.bind(x, axes=axes)
        sizes = aval_of(x).shape
        kept = kept_axes(len(sizes), axes)
        shape = (*(sizes[a] for a in kept), product([sizes[a] for a in axes]))
        last = len(kept)
        x, t = (reshape(transpose(v, (*kept, *axes)), shape) for v in (x, t))
        one = constant(1, x)
        still = [(0, 0, 0)] * last
        before = cumprod(pad(x, one, [*still, (1, -1, 0)]), last)
        after = cumprod(pad(x, one, [*still, (-1, 1, 0)]), last, reverse=True)
        return out, reduce_sum(mul(t, mul(before, after)), (last,))


reduce_prod_p = ReduceProduct("reduce_prod", np.multiply, lambda dtype: 1, NUMBER)
reduce_prod = reduction(
    reduce_prod_p,
    ">>> lax.reduce_prod(jnp.array([[1, 9], [7, 3]]), (1,))",
    "Array([ 9, 21], dtype=int32)",
)
