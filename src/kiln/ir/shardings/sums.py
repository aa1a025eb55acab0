"""Mesh axes along which values are unreduced or reduced: sums that are not computed yet."""

from __future__ import annotations

from typing import Any

from kiln.base.named_tuples import NamedTuple

Varying = frozenset[Any]
"""Names of mesh axes."""
NOWHERE: Varying = frozenset()


class Sums(NamedTuple):
    """Along which mesh axes an array is unreduced (a partial sum), and along which reduced."""

    unreduced: Varying = NOWHERE
    reduced: Varying = NOWHERE

    @property
    def dual(self) -> Sums:
        """The sums of a cotangent: copies of a value pull back to partial sums, and vice versa."""
        return Sums(self.reduced, self.unreduced)


NO_SUMS = Sums()
