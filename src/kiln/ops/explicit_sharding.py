"""What types say of shardings, changed: `reshard` says something else, `mesh_cast` says nothing.

Values do not change. A `reshard` is a promise that the program keeps: it becomes a constraint when
the program is compiled. After a `mesh_cast` the compiler decides, as it does inside `auto_axes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.array import with_type
from kiln.core.array_placement import placed
from kiln.core.engine import default_engine
from kiln.core.staging import StagingTrace
from kiln.core.trace import aval_of
from kiln.execution.compilation import as_array
from kiln.execution.told_programs import set_constraint
from kiln.ir.mesh import PartitionSpec
from kiln.ir.sharded_type import ShardedArray, plain, typed
from kiln.ir.sharding import NamedSharding
from kiln.ir.types import ShapedArray
from kiln.ops.linear_op import LinearOp


class TypeOfSharding(LinearOp):
    """An identity after which the type says something else of the sharding."""

    tells_shardings = True

    def stage(self, trace: StagingTrace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record the equation; from now on, types in the program tell shardings."""
        atoms = [trace.atom(x) for x in args]
        trace.is_told = True
        inferred = self.infer(*[atom.aval for atom in atoms], **params)
        return trace.record(self, atoms, inferred, params)

    def numpy(self, x: Any, **params: Any) -> Any:
        return x

    def expand(self, x: Any, **params: Any) -> Any:
        return x


class Reshard(TypeOfSharding):
    """Shard the operand as `sharding` says."""

    name = "reshard"

    def infer(self, x: Any, *, sharding: NamedSharding) -> ShapedArray:
        return typed(x, sharding)  # type: ignore[no-any-return]

    def evaluate(self, x: Any, *, sharding: NamedSharding) -> Any:
        memory = default_engine().memory
        array = as_array(x)
        return placed(array, memory, sharding) if memory.places_arrays else array

    def transpose(self, ct: Any, x: Any, *, sharding: NamedSharding) -> Any:
        return [retyped(ct, x.aval)]

    def batch(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], *, sharding: NamedSharding
    ) -> Any:
        (x,), (at,) = xs, axes
        aval = aval_of(x)
        entries = [*sharding.spec, *[None] * (aval.ndim - 1 - len(sharding.spec))]
        entries.insert(at, aval.split[at])
        stacked = NamedSharding(sharding.mesh, PartitionSpec(*entries))
        return self.bind(x, sharding=stacked), at


class MeshCast(TypeOfSharding):
    """Say nothing of how the operand is sharded: the compiler decides what follows."""

    name = "mesh_cast"

    def infer(self, x: Any) -> ShapedArray:
        return plain(x)  # type: ignore[no-any-return]

    def evaluate(self, x: Any) -> Any:
        return with_type(x, plain(x.aval))

    def transpose(self, ct: Any, x: Any) -> Any:
        return [retyped(ct, x.aval)]

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any]) -> Any:
        return self.bind(*xs), axes[0]


reshard_p = Reshard()
mesh_cast_p = MeshCast()
set_constraint(reshard_p)


def auto(x: Any) -> Any:
    """Return a value whose type says nothing of its sharding; the same one if it does not."""
    return mesh_cast_p.bind(x) if type(aval_of(x)) is ShardedArray else x


def retyped(x: Any, aval: ShapedArray) -> Any:
    """Return a value whose type says of its sharding what another type says."""
    if aval_of(x).split == aval.split:
        return x
    if type(aval) is ShardedArray:
        return reshard_p.bind(x, sharding=aval.placing)
    return auto(x)
