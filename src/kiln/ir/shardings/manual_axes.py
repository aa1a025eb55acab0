"""What a type says about the Manual axes of a mesh, inside `shard_map`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source


class ManualAxisType(Record):
    """The mesh axes along which members hold different values, partial sums, or reduced values.

    Raises: ValueError for an axis along which an array would be varying and something else.
    """

    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __init__(
        self,
        *,
        varying: Collection[Any] = (),
        unreduced: Collection[Any] = (),
        reduced: Collection[Any] = (),
    ) -> None:
        named = frozenset(varying)
        for kind, names in (("unreduced", unreduced), ("reduced", reduced)):
            if named.intersection(names):
                raise ValueError(
                    three_lines(
                        f"ManualAxisType with varying={varying}, {kind}={names} at "
                        f"{current_source()}",
                        f"varying and {kind} cannot have common mesh axes",
                        "name each axis once",
                    )
                )
        for name, value in (("varying", named), ("unreduced", unreduced), ("reduced", reduced)):
            object.__setattr__(self, name, frozenset(value))

    def invarying(self, mesh: Any) -> frozenset[Any]:
        """Return the Manual axes of a mesh along which all members hold the same value."""
        return frozenset(mesh.manual_axes) - self.varying - self.unreduced - self.reduced
