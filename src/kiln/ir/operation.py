"""Operation: what a program needs from a primitive: its name, its traits, its rules.

A subclass holds the mathematics; engines hold their lowerings. The rules, and who calls them:

    infer        result types, or an error naming operands   bind, checker       always
    numpy        what it means                                reference engine    always
    jvp          how results move with operands               jvp                 if differentiable
    transpose    pull back to `Linear` operands               reverse             if linear
    batch        the same on a stack of operands              vmap                always
    splits       how results are sharded, given operands      bind                Explicit axes
    expand       the same in simpler primitives               engines             optional
    partial_eval, live, stage, evaluate                       regions only
    thread_state the same, state passed through its programs  checks, references   regions only
    programs     its programs with their operands             references       regions only
    use_keys     which random keys are used, and what becomes of them  debug_key_reuse
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import MissingRule, ShardingTypeError
from kiln.base.source import current_source
from kiln.ir.effects import NO_EFFECTS, Effects
from kiln.ir.shardings.sums import NOWHERE, Varying


class Operation:
    """An operation on arrays. `multiple` means that it has a list of results.

    Its rules are methods of its class, or attributes of the instance that have the same signature.
    """

    name: str = "?"
    multiple: bool = False
    on_host: bool = False
    """Run eagerly by the primitive's NumPy meaning, without compiling."""
    takes_refs: bool = False
    """Has operands that may be references."""
    region: bool = False
    """Holds programs among its parameters."""
    on_keys: str = "use"
    """What it does with random keys: `use` them, `look` at them, or `move` them elsewhere."""
    infers_shardings: bool = False
    """Its `infer` takes operand types with shardings, and infers those of the results."""
    pulls_zeros: bool = False
    """Its transpose is called even if all cotangents are Zero: it is user code."""

    revision: int = 0
    """When a rule of this primitive was last replaced (`base/caches/revisions.py`); 0: never."""

    for_transformations: tuple[str, ...] = ()
    """Parameters that only transformations read: code does not depend on them."""

    partial_eval: Callable[..., Any] | None = None
    stage: Callable[..., Any] | None = None
    evaluate: Callable[..., Any] | None = None
    live: Callable[..., Any] | None = None
    thread_state: Callable[..., Any] | None = None
    programs: Callable[..., Any] | None = None
    write: Callable[..., str] | None = None
    """Returns the text of an equation, given its used results, its operands, and its parameters."""

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation; implemented in `core/primitive.py`, which knows traces."""
        raise NotImplementedError

    def runs_on_host(self, avals: Sequence[Any]) -> bool:
        """Tell whether to run eagerly on operands of these types by the NumPy meaning."""
        return self.on_host

    def effects(self, params: dict[str, Any]) -> Effects:
        """What an equation of this primitive does besides computing."""
        return NO_EFFECTS

    def infer(self, *avals: Any, **params: Any) -> Any:
        """Return the result type (a list of them if `multiple`)."""
        raise self._missing("infer")

    def varies(self, operands: Varying, params: dict[str, Any]) -> Varying:
        """Return the mesh axes along which results vary, given those of all operands."""
        return operands

    def splits(
        self, operands: Sequence[Any], results: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Return the split of each axis of the result (a list if `multiple`), like `aval.split`.

        The types of the operands hold their splits, those of the results do not yet.

        Raises: ShardingTypeError if those do not determine it.
        """
        raise ShardingTypeError(
            f"{self.name}: operands {', '.join(map(str, operands))} at {current_source()}\n"
            f"sharding rule for {self.name} is not implemented: its types cannot say how the "
            "result is sharded\n"
            "let the compiler shard it: kiln.sharding.auto_axes(function, out_sharding=P(...))"
        )

    def first_stacked(self, params: dict[str, Any]) -> tuple[int, int] | None:
        """Return the first operand and the first result that the inner program sees row by row."""
        return None

    def sums_over(self, splits: Sequence[Any], params: dict[str, Any]) -> Varying | None:
        """Return the mesh axes along which results are partial sums, given the operands' splits.

        None if they are those of the operand.
        """
        return NOWHERE

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Return along which mesh axes all results are unreduced and reduced, as `aval.sums` does.

        It is called only if an operand is unreduced or reduced along some axis.

        Raises: ShardingTypeError if the sum of the results would not be the result for the sums.
        """
        unreduced = any(getattr(x, "sums", ((),))[0] for x in operands)
        kind = "unreduced" if unreduced else "unreduced/reduced"
        raise ShardingTypeError(
            f"{self.name}: operands {', '.join(map(str, operands))} at {current_source()}\n"
            f"{kind} rule for {self.name} is not implemented\n"
            "add the parts first: kiln.reshard(x, P(...)) without unreduced= or reduced="
        )

    def numpy(self, *arrays: Any, **params: Any) -> Any:
        """Compute the operation with NumPy."""
        raise self._missing("numpy")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        """Return (result, tangent); with `multiple`, lists. Some tangent is not Zero."""
        raise self._missing("jvp", "it is not differentiable")

    def transpose(self, cotangent: Any, *operands: Any, **params: Any) -> Any:
        """Return one cotangent (or None) per operand; those to pull back to are `Linear`."""
        raise self._missing("transpose", "it is not linear")

    def batch(
        self, size: Any, operands: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        """Return (result, axis); with `multiple`, lists. `axes` are ints, or None for unmapped."""
        raise self._missing("batch")

    def batch_over(
        self, axis: Any, operands: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        """Like `batch`, given the whole `MappedAxis`; for rules that depend on the axis name."""
        return self.batch(axis.size, operands, axes, **params)

    def use_keys(self, eqn: Any, operands: Sequence[Any], values: Sequence[Any]) -> Any:
        """Return the keys of the results, given those of operands and the values that are known.

        Implemented in `core/primitive.py`; regions go through their programs
        (`analysis/key_uses.py`).

        Raises: KeyReuseError if a key is used that was used before.
        """
        raise NotImplementedError

    def expand(self, *operands: Any, **params: Any) -> Any:
        """Compute the operation with simpler primitives."""
        raise self._missing("expand")

    def _missing(self, rule: str, why: str = "") -> MissingRule:
        return MissingRule(
            f"{rule} of {self.name!r} at {current_source()}\n"
            f"the primitive has no {rule} rule{': ' + why if why else ''}\n"
            f"{self.remedy(rule)}, or use operations that have it"
        )

    def remedy(self, rule: str) -> str:
        """Return how to define a rule, for messages."""
        return f"define `{rule}` on {type(self).__name__}"

    def has(self, rule: str) -> bool:
        """Tell whether the class or the instance defines a rule."""
        return rule in self.__dict__ or getattr(type(self), rule) is not getattr(Operation, rule)

    def __repr__(self) -> str:
        return self.name
