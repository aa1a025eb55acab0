"""What mesh axes say of values beside how they split them: sums that are still to be made."""

from __future__ import annotations

from typing import Any

from kiln.base.named_tuples import NamedTuple

Varying = frozenset[Any]
"""Names of mesh axes."""
NOWHERE: Varying = frozenset()


class Sums(NamedTuple):
    """Along which mesh axes an array is unreduced (a part of a sum), and along which reduced."""

    unreduced: Varying = NOWHERE
    reduced: Varying = NOWHERE

    @property
    def dual(self) -> Sums:
        """Those of a cotangent: copies of a value pull back to parts of a sum, and vice versa."""
        return Sums(self.reduced, self.unreduced)


NO_SUMS = Sums()
