"""Primitives as objects: one per operand types and parameters, with rules that take trees.

`VJPHiPrimitive` is the other way to define a primitive of high values, and of arrays: an instance
has the types of its operands and results, and is called. A call on traced values becomes an
equation of the arrays that they consist of, as that of a `HiPrimitive` does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from kiln.base.errors import MissingRule, three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_flatten, tree_unflatten
from kiln.control.high.hi_rules import AxisData, GradAccum, hi_primitive_call_p
from kiln.core.hitypes import HiType, lowered, raised
from kiln.core.ref import Ref
from kiln.core.trace import Tracer, aval_of
from kiln.ir.rewrite import params_key
from kiln.ops.shape import filled, mapped_at, reduce_sum
from kiln.transforms.batching import MappedAxis, batch


class VJPHiPrimitive:
    """An operation on values of some types: `in_avals`, a tuple of trees, to `out_aval`, a tree.

    A subclass sets both and `params`, a dictionary of hashable values, and then calls
    `super().__init__()`. It defines `expand(*args)`; for derivatives `jvp(primals, tangents)`, or
    `lin(nonzero, *primals)` and `linearized(residuals, *tangents)`, or, in reverse alone,
    `vjp_fwd(nonzero, *args)` with `vjp_bwd_retval(residuals, ct)` or
    `vjp_bwd(residuals, ct, *accumulators)`; `transpose(ct, *accumulators_or_values)` if it is
    linear; `batch(axis, args, dims)` or `batch_dim_rule(axis, dims)` for stacks.

    Example:
        >>> from kiln.experimental import hijax
        >>> class Cube(hijax.VJPHiPrimitive):
        ...     def __init__(self, aval):
        ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        ...         super().__init__()
        ...
        ...     def expand(self, x):
        ...         return x**3
        ...
        ...     def vjp_fwd(self, nonzero, x):
        ...         return self(x), x
        ...
        ...     def vjp_bwd_retval(self, x, ct):
        ...         return (3 * x**2 * ct,)
        >>> float(kiln.grad(lambda x: Cube(kiln.typeof(x))(x))(2.0))
        12.0
    """

    in_avals: Any
    out_aval: Any
    params: dict[str, Hashable]
    effects: Any = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(
                    three_lines(
                        f"{type(self).__name__}(...) at {current_source()}",
                        f"subclass __init__ should set `self.{name}`",
                        "set it before calling super().__init__()",
                    )
                )
        if self.has("vjp_bwd") and self.has("vjp_bwd_retval"):
            raise AttributeError(
                three_lines(
                    f"{type(self).__name__}(...) at {current_source()}",
                    f"subclass {type(self)} should not override both `vjp_bwd` and "
                    "`vjp_bwd_retval`",
                    "define the one that returns cotangents, or the one that accumulates them",
                )
            )
        self.in_avals_flat, self.in_tree = tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree_flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def has(self, rule: str) -> bool:
        """Tell whether the subclass defines a rule."""
        return getattr(type(self), rule) is not getattr(VJPHiPrimitive, rule)

    def check(self, *arg_tys: Any) -> None:
        """Check the types of the operands: nothing, unless the subclass does."""

    def expand(self, *args: Any) -> Any:
        """Compute the operation, by functions of arrays."""
        raise self._undefined("expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """Return the result and residuals; `nzs_in` says which operands have tangents."""
        raise self._undefined("vjp_fwd")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Add the cotangents of `vjp_bwd_retval` to the accumulators of the operands."""
        grads = self.vjp_bwd_retval(res, outgrad)
        leaves = self.in_tree.flatten_up_to(grads)
        for accumulator, ct in zip(self.in_tree.flatten_up_to(arg_accums), leaves, strict=True):
            accumulator.accum(ct)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """Return the cotangents of the operands."""
        raise self._undefined("vjp_bwd` or `vjp_bwd_retval")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """Return the result and its tangent."""
        raise self._undefined("jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """Return the result, and what `linearized` needs besides tangents."""
        raise self._undefined("lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """Return the tangent of the result."""
        raise self._undefined("linearized")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Add cotangents to the accumulators, which stand for operands that it is linear in."""
        raise self._undefined("transpose")

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        """Return the result for stacks, and the positions of its mapped axes."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        """Return the positions of the mapped axes of the result."""
        raise self._undefined("batch` or `batch_dim_rule")

    def __call__(self, *args: Any) -> Any:
        """Apply the operation to values, traced or not.

        Raises: TypeError for operands of another structure.
        """
        leaves, tree = tree_flatten(args)
        if tree != self.in_tree:
            raise TypeError(
                three_lines(
                    f"{self!r} at {current_source()}",
                    f"the operands have the structure {tree}, and its `in_avals` {self.in_tree}",
                    "make the primitive for the types of its operands: P(kiln.typeof(x))(x)",
                )
            )
        changing = any(type(x) is Ref or kind_changes(aval_of(x)) for x in leaves)
        if self.effects or changing:
            return self.expand(*args)
        if not any(isinstance(x, Tracer) for x in self._arrays(leaves)):
            return self.expand(*args)
        found = hi_primitive_call_p.bind(*lowered(self.in_avals_flat, leaves), prim=self)
        return tree_unflatten(self.out_tree, raised(self.out_avals_flat, found))

    def _arrays(self, leaves: Sequence[Any]) -> list[Any]:
        """Return what may be traced: values whose types define their arrays, as these arrays."""
        return [
            array
            for kind, x in zip(self.in_avals_flat, leaves, strict=True)
            for array in (lowered([kind], [x]) if says_parts(kind) else [x])
        ]

    def _undefined(self, rule: str) -> MissingRule:
        return MissingRule(
            three_lines(
                f"{self!r} at {current_source()}",
                f"subclass {type(self)} must implement `{rule}` for this",
                f"define `{rule}` on {type(self).__name__}",
            )
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, params_key(self.params)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, VJPHiPrimitive)
            and type(self) is type(other)
            and self.in_avals_flat == other.in_avals_flat
            and params_key(self.params) == params_key(other.params)
        )


def kind_changes(kind: Any) -> bool:
    """Tell whether values of a type are mutable."""
    return bool(getattr(kind, "has_qdd", False))


def says_parts(kind: Any) -> bool:
    """Tell whether a type defines which arrays its values consist of."""
    return getattr(type(kind), "lower_val", None) is not HiType.lower_val


class VmapOf(VJPHiPrimitive):
    """A primitive over stacks, derived from its rules for one example."""

    prim: VJPHiPrimitive
    axis_data: AxisData
    in_dims: Any
    out_dim: Any

    def __init__(
        self, prim: VJPHiPrimitive, axis_data: AxisData, in_dims: Any, out_dim: Any
    ) -> None:
        self._in = tuple(prim.in_tree.flatten_up_to(in_dims))
        self._out = tuple(prim.out_tree.flatten_up_to(out_dim))
        ins = zip(prim.in_avals_flat, self._in, strict=True)
        outs = zip(prim.out_avals_flat, self._out, strict=True)
        size = axis_data.size
        self.in_avals = tree_unflatten(prim.in_tree, [_stacked(a, size, d) for a, d in ins])
        self.out_aval = tree_unflatten(prim.out_tree, [_stacked(a, size, d) for a, d in outs])
        self.params = {
            "prim": prim,
            "axis_data": axis_data,
            "in_dims": in_dims,
            "out_dim": out_dim,
        }
        super().__init__()
        # Rules that the wrapped primitive does not define are not defined here either.
        for rule in ("jvp", "lin", "vjp_fwd"):
            if not prim.has(rule):
                self._lacks = (*self._lacks, rule)

    _lacks: tuple[str, ...] = ()

    def has(self, rule: str) -> bool:
        """Tell whether the wrapped primitive defines a rule."""
        return super().has(rule) and rule not in self._lacks

    def _over(
        self, fun: Callable[..., Any], xs: Sequence[Any], at: Sequence[int | None]
    ) -> tuple[list[Any], list[int | None]]:
        return batch(fun, MappedAxis(self.axis_data.size, self.axis_data.name), xs, at)

    def _placed(self, xs: Sequence[Any], at: Sequence[int | None]) -> list[Any]:
        """Return results of an example's rule, mapped where those of this primitive are."""
        return [
            x if want is None and a is None else mapped_at(x, self.axis_data.size, a, want or 0)
            for x, a, want in zip(xs, at, self._out, strict=True)
        ]

    def expand(self, *args: Any) -> Any:
        """Compute the operation for stacks."""
        leaves = self.in_tree.flatten_up_to(args)
        tree = self.prim.in_tree

        def flat(*xs: Any) -> list[Any]:
            return self.out_tree.flatten_up_to(self.prim.expand(*tree_unflatten(tree, xs)))

        return tree_unflatten(self.out_tree, self._placed(*self._over(flat, leaves, self._in)))

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """Return the results and their tangents, by the rule for an example."""
        given = map(filled, self.in_tree.flatten_up_to(tangents))
        leaves = [*self.in_tree.flatten_up_to(primals), *given]
        tree, count = self.in_tree, len(self._in)

        def flat(*xs: Any) -> list[Any]:
            values, moves = tree_unflatten(tree, xs[:count]), tree_unflatten(tree, xs[count:])
            out, moved = self.prim.jvp(values, moves)
            rest = map(filled, self.out_tree.flatten_up_to(moved))
            return [*self.out_tree.flatten_up_to(out), *rest]

        found, at = self._over(flat, leaves, (*self._in, *self._in))
        half = len(self._out)
        return tuple(
            tree_unflatten(self.out_tree, self._placed(part, axes))
            for part, axes in ((found[:half], at[:half]), (found[half:], at[half:]))
        )

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """Return the results and residuals, by the rule for an example."""
        leaves, half = self.in_tree.flatten_up_to(args), len(self._out)
        trees: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            found = self.prim.vjp_fwd(nzs_in, *tree_unflatten(self.in_tree, xs))
            residuals, tree = tree_flatten(found[1])
            trees[:] = [tree]
            return [*self.out_tree.flatten_up_to(found[0]), *residuals]

        found, at = self._over(flat, leaves, self._in)
        out = tree_unflatten(self.out_tree, self._placed(found[:half], at[:half]))
        # The pullback gets residuals as stacks along the first axis.
        stacks = zip(found[half:], at[half:], strict=True)
        size = self.axis_data.size
        return out, tree_unflatten(trees[0], [mapped_at(x, size, a, 0) for x, a in stacks])

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """Return the cotangents of the operands, summed for those that are not mapped."""
        residuals, tree = tree_flatten(res)
        cts = list(map(filled, self.out_tree.flatten_up_to(outgrad)))
        count, size = len(residuals), self.axis_data.size

        def flat(*xs: Any) -> list[Any]:
            given = tree_unflatten(self.out_tree, xs[count:])
            accumulators = [GradAccum(aval.to_ct_aval()) for aval in self.prim.in_avals_flat]
            self.prim.vjp_bwd(
                tree_unflatten(tree, xs[:count]), given, *tree_unflatten(self.in_tree, accumulators)
            )
            return [filled(ct) for accumulator in accumulators for ct in accumulator.found()]

        found, at = self._over(flat, [*residuals, *cts], (*[0] * count, *self._out))
        back = [
            reduce_sum(mapped_at(ct, size, a, 0), (0,))
            if want is None
            else mapped_at(ct, size, a, want)
            for ct, a, want in zip(found, at, self._in, strict=True)
        ]
        return tree_unflatten(self.in_tree, back)

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        """Return the positions of the mapped axes of the result, for a further map."""
        outer = self.in_tree.flatten_up_to(dims)
        inner = [
            d if d is None or own is None else d - (own < d)
            for d, own in zip(outer, self._in, strict=True)
        ]
        found = self.prim.batch_dim_rule(axis_data, tree_unflatten(self.in_tree, inner))
        leaves = self.out_tree.flatten_up_to(found)
        return tree_unflatten(
            self.out_tree,
            [
                d if d is None or own is None else d + (own <= d)
                for d, own in zip(leaves, self._out, strict=True)
            ],
        )


def _stacked(aval: Any, size: Any, dim: int | None) -> Any:
    if dim is None:
        return aval
    return aval.with_(shape=(*aval.shape[:dim], size, *aval.shape[dim:]))
