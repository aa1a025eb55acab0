"""What JAX's tests ask of private modules about shardings, in terms of kiln's shardings.

XLA's own shardings are made of what a sharding of kiln says of each device (`blocks`), so that
tests of them are tests of that.
"""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from typing import Any

import jaxlib.xla_client
import numpy as np

import kiln
import kiln.sharding
from kiln.core.arrays import errors as array_errors
from kiln.core.arrays.array import ConcreteArray
from kiln.engines.xla.runtime.layouts import hlo_of
from kiln.engines.xla.stablehlo.partition import Partition
from kiln.ir.shardings.manual_axes import ManualAxisType
from kiln.ir.shardings.mesh import Mesh, axes_of
from kiln.ir.shardings.sharding import Blocks, Sharding, misfit

_HloSharding = jaxlib.xla_client.HloSharding
_OpSharding = jaxlib.xla_client.OpSharding


def _to_xla(self: Sharding, ndim: int) -> Any:
    """Return the sharding as XLA has it."""
    return hlo_of(self.blocks(ndim))


def _to_sdy(self: Sharding, ndim: int) -> str:
    """Return the sharding as it stands in the text of programs."""
    return Partition(None).body(self, ndim)


def _is_replicated(sharding: Any) -> bool:
    if isinstance(sharding, _OpSharding):
        sharding = _HloSharding.from_proto(sharding)
    if sharding.is_replicated() or sharding.num_devices() == 1:
        return True
    return sharding.is_tiled() and math.prod(_tiles(sharding)) == 1


def _tiles(sharding: Any) -> list[int]:
    """Return the number of parts of each axis."""
    found = list(sharding.tile_assignment_dimensions())
    return found[:-1] if sharding.replicate_on_last_tile_dim() else found


def _are_equal(a: Any, b: Any) -> bool:
    """Tell whether two shardings of XLA put the same parts on each device."""
    if a is b or (_is_replicated(a) and _is_replicated(b)):
        return True
    if _is_replicated(a) or _is_replicated(b):
        return False
    return _tiles(a) == _tiles(b) and (
        list(a.tile_assignment_devices()) == list(b.tile_assignment_devices())
    )


class GSPMDSharding(Sharding):
    """A sharding that one of XLA's describes."""

    def __init__(
        self, devices: Sequence[Any], op_sharding: Any, *, memory_kind: Any = None
    ) -> None:
        is_op = isinstance(op_sharding, _OpSharding)
        self.devices = tuple(devices)
        self._hlo_sharding = _HloSharding.from_proto(op_sharding) if is_op else op_sharding
        self.memory_kind = memory_kind

    @classmethod
    def get_replicated(cls, devices: Sequence[Any], *, memory_kind: Any = None) -> GSPMDSharding:
        """Return the sharding that puts all of an array on each device."""
        return cls(devices, _HloSharding.replicate(), memory_kind=memory_kind)

    def blocks(self, ndim: int) -> Blocks:
        """Return how an array of rank `ndim` is split."""
        if _is_replicated(self._hlo_sharding):
            return Blocks((1,) * ndim, ((0,) * ndim,) * len(self.devices))
        parts = _tiles(self._hlo_sharding)
        numbers = np.array(self._hlo_sharding.tile_assignment_devices()).reshape(*parts, -1)
        at = {int(device): tuple(map(int, place[:-1])) for place, device in np.ndenumerate(numbers)}
        return Blocks(tuple(parts), tuple(at[i] for i in range(len(self.devices))))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return _is_replicated(self._hlo_sharding)

    def _to_xla(self, ndim: int) -> Any:
        return self._hlo_sharding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GSPMDSharding)
            and self.devices == other.devices
            and _are_equal(self._hlo_sharding, other._hlo_sharding)
        )

    def __hash__(self) -> int:
        replicated = _is_replicated(self._hlo_sharding)
        return hash((self.devices, replicated or self._hlo_sharding))

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._hlo_sharding!r})"


class _Implementation(type(kiln.Array)):  # type: ignore[misc]
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, ConcreteArray)

    def __call__(cls, aval: Any, sharding: Any, arrays: Any, committed: bool = True) -> Any:
        return kiln.make_array_from_single_device_arrays(
            aval.shape, sharding, arrays, dtype=aval.dtype
        )


class ArrayImpl(kiln.Array, metaclass=_Implementation):
    """The class of concrete arrays; calling it makes one of arrays on single devices."""


class _Environment:
    @property
    def physical_mesh(self) -> Any:
        """The mesh in force, or one of nothing."""
        return kiln.sharding.get_mesh()


def _gathered(x: Any, out_sharding: Any, *, multi_dim: bool = False) -> Any:
    """Return an array of which devices have more than before, as the type of the result says.

    Raises: ValueError if it would be split by something else, or gathered along several axes.
    """
    before, after = kiln.typeof(x).sharding.spec, out_sharding
    entries = [*after, *[None] * (len(before) - len(after))]
    wrong, gathered = "", 0
    for old, new in zip(map(axes_of, before), map(axes_of, entries), strict=True):
        if new and not old:
            wrong = f"it requires the input {before} to be unsharded where {after} is"
        elif old[: len(new)] != new:
            wrong = (
                "it maintains the property that each entry of the result is a prefix of in_spec's: "
                f"{before} and {after}"
            )
        gathered += old != new
    if gathered > 1 and not multi_dim:
        wrong = wrong or "multiple dimensions cannot be all_gathered without multi_dim=True"
    if wrong:
        raise ValueError(f"all_gather of an array sharded by {before}: {wrong}")
    return kiln.reshard(x, out_sharding)


def _ways(sharding: Any) -> tuple[list[int], int]:
    """Return the number of parts of each axis, and of copies."""
    dims = list(sharding.tile_assignment_dimensions())
    return (dims[:-1], dims[-1]) if sharding.replicate_on_last_tile_dim() else (dims, 1)


def _is_strict_leaf(tree: Any) -> bool:
    return bool(tree.num_nodes == tree.num_leaves == 1)


def _check_if_deleted(self: ConcreteArray) -> None:
    if self.is_deleted():
        raise array_errors.deleted(self.aval)


def _parts(self: ConcreteArray) -> Any:
    return None if self.is_deleted() else [shard.data for shard in self.addressable_shards]


def _own_values(self: ConcreteArray) -> Any:
    return None if self.is_deleted() else self._host


def _first_part(self: ConcreteArray) -> Any:
    return self.addressable_data(0)


def _check_rank(self: Sharding, shape: Sequence[int]) -> None:
    """Raise ValueError for arrays of too few axes."""
    wrong = misfit(self, shape)
    if "rank" in wrong:
        raise ValueError(f"Sharding {wrong}")


_ATTRIBUTES: dict[type, dict[str, Any]] = {
    Sharding: {
        "_to_xla_hlo_sharding": _to_xla,
        "_to_sdy_sharding": _to_sdy,
        "check_compatible_aval": _check_rank,
    },
    GSPMDSharding: {"_to_xla_hlo_sharding": GSPMDSharding._to_xla},
    Mesh: {"_flat_devices_tuple": property(lambda mesh: mesh.flat)},
    ConcreteArray: {
        "_value": property(np.asarray),
        "_npy_value": property(_own_values),
        "_arrays": property(_parts),
        "_check_if_deleted": _check_if_deleted,
        "_fully_replicated_shard": _first_part,
    },
}


def install_attributes() -> None:
    """Give classes of kiln the private attributes by which JAX's tests look at them."""
    for kind, attributes in _ATTRIBUTES.items():
        for name, value in attributes.items():
            setattr(kind, name, value)


def sharding_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names of private modules by module."""
    return {
        "jax._src.op_shardings": {
            "are_hlo_shardings_equal": _are_equal,
            "is_hlo_sharding_replicated": _is_replicated,
            "get_num_ways_dim_sharded": _ways,
        },
        "jax._src.array": {"ArrayImpl": ArrayImpl},
        "jax._src.core": {"ManualAxisType": ManualAxisType},
        "jax._src.sharding": {"IndivisibleError": ValueError},
        "jax._src.named_sharding": {"DuplicateSpecError": ValueError},
        "jax._src.mesh": {
            "empty_abstract_mesh": kiln.sharding.get_abstract_mesh(),
            "empty_concrete_mesh": kiln.sharding.get_mesh(),
            "thread_resources": types.SimpleNamespace(env=_Environment()),
        },
        "jax._src.shard_map": {"top_level_all_gather": _gathered},
        "jax._src.sharding_impls": {
            "GSPMDSharding": GSPMDSharding,
            "UNSPECIFIED": None,
        },
        "jax._src.tree_util": {"treedef_is_strict_leaf": _is_strict_leaf},
    }
