"""Meshes without devices, and the kinds of mesh axes.

An `AbstractMesh` has the names, sizes and kinds of the axes of a `Mesh`. It is used in types, and
in shardings that are written before the devices are known.
"""

from __future__ import annotations

import collections
import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.pickled import pickled_as, reduced
from kiln.base.records import Record
from kiln.base.source import current_source


@pickled_as("AxisType")
class AxisType(enum.Enum):
    """Who decides how arrays are split along a mesh axis: compiler, types, or the function."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return reduced("AxisType", self.value)


def axis_types_for(axis_names: Sequence[Any], axis_types: Any, what: str) -> tuple[AxisType, ...]:
    """Return one kind for each axis; all are Auto if none is given.

    Raises: TypeError for anything but an AxisType, ValueError for another number than there are
    axes.
    """
    if axis_types is None:
        return (AxisType.Auto,) * len(axis_names)
    found = axis_types if isinstance(axis_types, tuple) else (axis_types,)
    asked = f"{what} with axis_names={tuple(axis_names)}, axis_types={axis_types} at"
    if not all(isinstance(kind, AxisType) for kind in found):
        raise TypeError(
            three_lines(
                f"{asked} {current_source()}",
                f"axis_types passed to {what} must be of type `AxisType`",
                "write axis_types=(AxisType.Auto,) * len(axis_names)",
            )
        )
    if len(found) != len(axis_names):
        raise ValueError(
            three_lines(
                f"{asked} {current_source()}",
                "Number of axis names should match the number of axis_types: "
                f"{len(axis_names)} names, {len(found)} types",
                "give one type for each axis",
            )
        )
    return found


class AxisKinds:
    """What meshes with and without devices have in common: names, sizes, kinds of axes."""

    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]
    is_explicit: bool
    """Whether some axis is Explicit: types hold what is split along it."""

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        raise NotImplementedError

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """Axis name -> size."""
        return collections.OrderedDict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Pairs of a name and a size."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    def _all(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(each is kind for each in self.axis_types)

    def _of(self, kind: AxisType) -> tuple[Any, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(name for name, each in pairs if each is kind)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes, and all are Auto."""
        return self._all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes, and all are Explicit."""
        return self._all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes, and all are Manual."""
        return self._all(AxisType.Manual)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """The names of the Auto axes."""
        return self._of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The names of the Explicit axes."""
        return self._of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """The names of the Manual axes."""
        return self._of(AxisType.Manual)


@pickled_as("AbstractDevice")
class AbstractDevice(Record):
    """The description of a device that need not exist."""

    device_kind: str
    num_cores: int | None
    platform: str

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("AbstractDevice", self.device_kind, self.num_cores, self.platform)


class AbstractMesh(AxisKinds):
    """The axes of a mesh: names, sizes, kinds; no devices. Immutable, equal by value.

    Raises: ValueError for another number of sizes or types than of names; on access to devices.
    """

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: Sequence[Any],
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> None:
        self.axis_names = tuple(axis_names)
        self._sizes = tuple(axis_sizes)
        if len(self._sizes) != len(self.axis_names):
            raise ValueError(
                three_lines(
                    f"AbstractMesh({axis_sizes}, {axis_names}) at {current_source()}",
                    f"{len(self._sizes)} sizes need as many names, got {len(self.axis_names)}",
                    "give one name per size",
                )
            )
        self.axis_types = axis_types_for(self.axis_names, axis_types, "AbstractMesh")
        self.is_explicit = AxisType.Explicit in self.axis_types
        self.abstract_device = abstract_device
        self._key = (self._sizes, self.axis_names, self.axis_types, abstract_device)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._sizes

    @property
    def size(self) -> int:
        """The number of places; 0 without axes."""
        return math.prod(self._sizes) if self._sizes else 0

    @property
    def empty(self) -> bool:
        """Whether the mesh has no axes."""
        return self.size == 0

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    @property
    def flat(self) -> tuple[Any, ...]:
        """No devices."""
        return ()

    def __getattr__(self, name: str) -> Any:
        if name in ("devices", "device_ids", "is_multi_process", "local_devices", "local_mesh"):
            raise ValueError(
                three_lines(
                    f"{self!r}.{name} at {current_source()}",
                    f"AbstractMesh does not implement {name}: it has no devices",
                    "use a Mesh, such as kiln.make_mesh((8,), ('x',))",
                )
            )
        raise AttributeError(f"'AbstractMesh' object has no attribute {name!r}")

    def update(self, **changes: Any) -> AbstractMesh:
        """Return a mesh with other `axis_sizes`, `axis_names`, `axis_types`, `abstract_device`."""
        names = ("axis_sizes", "axis_names", "axis_types", "abstract_device")
        values: dict[str, Any] = dict(zip(names, self._key, strict=True))
        values.update({name: v for name, v in changes.items() if v is not None})
        return AbstractMesh(**values)

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> AbstractMesh:
        """Return a mesh in which the named axes have other kinds."""
        kinds = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(name, kind) for name, kind in kinds))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AbstractMesh) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple) or "()"
        device = "" if self.abstract_device is None else f", {self.abstract_device}"
        return f"AbstractMesh({sizes}, axis_types={self.axis_types}{device})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("AbstractMesh", *self._key)


@pickled_as("AbstractMesh")
def _abstract_mesh(sizes: Any, names: Any, types: Any, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


EMPTY = AbstractMesh((), ())
"""The mesh of types without shardings."""
