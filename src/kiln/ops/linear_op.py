"""The base of linear operations on one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.primitive import Primitive
from kiln.ir.shardings.sums import Varying
from kiln.ops.out_sums import passed


class LinearOp(Primitive):
    """A linear operation on one array: its tangent rule is the operation itself."""

    on_host = True

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def sums_over(self, splits: Sequence[Any], params: dict[str, Any]) -> Varying | None:
        return None

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return passed(self.name, operands)
