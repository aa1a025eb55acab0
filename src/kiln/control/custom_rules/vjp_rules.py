"""The rules of `custom_vjp` as functions of leaves: checked, and mapped over stacks.

A forward rule returns results, residuals, and `info`: how to interpret both. A backward rule takes
residuals, that info, and one cotangent per result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import definition_of, name_of
from kiln.base.tree import (
    keystr,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from kiln.control.custom_rules.function import ForwardRule, Mapped, UserRule
from kiln.control.regions.arguments import (
    as_seen,
    fitted,
    flatten_arrays,
    instantiated,
    merge_static,
)
from kiln.control.regions.held_refs import held, release
from kiln.control.regions.region import select_by
from kiln.core.absent import Zero, is_zero
from kiln.core.trace import aval_of, in_users_lines
from kiln.ir.types import ShapedArray
from kiln.ops.shape import mapped_at, reduce_sum
from kiln.transforms.batching import MappedAxis, batch


class _None:
    """A cotangent that the backward rule returned as None."""


_NOTHING = _None()


class CustomVJPPrimal(Record):
    """An argument of a forward rule with symbolic zeros: a value, and whether it has a tangent."""

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """Return a pytree of `CustomVJPPrimal` with each replaced by its value."""
    return tree_map(lambda leaf: leaf.value, tree)


def zero_from_primal(value: Any, symbolic_zeros: bool = False) -> Any:
    """Return the zero tangents of a pytree of values: Zeros, or arrays of zeros."""

    def tangent(x: Any) -> Any:
        zero = Zero.from_primal_value(x)
        return zero if symbolic_zeros else instantiated(zero)

    return tree_map(tangent, value)


class Forward(ForwardRule):
    """A user forward rule as a function of leaves: results, residuals, and how to read them."""

    kind = "Custom VJP fwd rule"

    def __call__(
        self, primals: Sequence[Any], moving: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Any]:
        """Return results, residuals, and the structures of both; `moving` says what has a tangent.

        Raises: TypeError if the rule does not return a pair, or its structure is not the
            function's.
        """
        if self.symbolic_zeros:
            primals = list(map(CustomVJPPrimal, primals, moving))
        args = release(merge_static(self.static, tree_unflatten(self.in_tree, primals)), self.title)
        with in_users_lines():
            pair = self.fun(*args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise self.error(
                "must produce a pair (list or tuple of length two) where the first element is the "
                "output of the function and the second holds residuals for the bwd rule, but "
                f"instead of a pair it produced {pair!r}",
                "return (result, residuals)",
            )
        outs, tree = flatten_arrays("custom VJP fwd rule", self.of, pair[0])
        residuals, residual_tree = flatten_arrays("custom VJP residuals", self.of, held(pair[1]))
        if self.out_tree is not None and tree != self.out_tree:
            raise self.error(
                "must produce a pair whose first element has the container (pytree) structure of "
                f"the function's output, but got {tree} where the function has {self.out_tree}",
                "return as first element what the function itself returns",
            )
        self.box[:] = [tree]
        return outs, residuals, (residual_tree, tree)


class Backward(UserRule):
    """A user backward rule as a function of leaves."""

    kind = "Custom VJP bwd rule"

    def __call__(
        self, residuals: Sequence[Any], info: Any, cts: Sequence[Any], avals: Sequence[ShapedArray]
    ) -> list[Any]:
        """Return one cotangent per input of the function; `avals` are the inputs' types."""
        residual_tree, out_tree = info
        seen = as_seen if self.symbolic_zeros else instantiated
        with in_users_lines():
            result = self.fun(
                *[x for _, x in self.static],
                release(tree_unflatten(residual_tree, residuals), self.title),
                tree_unflatten(out_tree, list(map(seen, cts))),
            )
        pairs = zip(self._leaves(result), avals, strict=True)
        return [self._cotangent(path, ct, aval) for (path, ct), aval in pairs]

    def _leaves(self, result: Any) -> list[tuple[Any, Any]]:
        if isinstance(result, list):
            result = tuple(result)
        like = held(tree_unflatten(self.in_tree, [_NOTHING] * self.in_tree.num_leaves))
        leaves: list[Any] = []

        def spread(ct: Any, part: Any) -> None:
            # One cotangent may stand for a subtree: if it holds one array, the cotangent is that
            # array's.
            leaves.extend([_NOTHING if ct is None else ct] * len(tree_leaves(part)))

        try:
            tree_map(spread, held(result), like, is_leaf=lambda x: x is None)
            fits = isinstance(result, tuple) and len(leaves) == self.in_tree.num_leaves
        except (ValueError, TypeError):
            fits = False
        if not fits:
            raise TypeError(
                three_lines(
                    f"gradient of {definition_of(self.of)}",
                    f"{self.title} must produce an output with the same "
                    "container (pytree) structure as the args tuple of the primal function, and in "
                    "particular must produce a tuple of length equal to the number of arguments to "
                    f"the primal function, but got bwd output structure {tree_structure(result)} "
                    f"for primal input structure {self.in_tree}.",
                    f"return a tuple of {len(self.in_tree.children())} cotangents; None stands for "
                    "zero",
                )
            )
        paths = [path for path, _ in tree_flatten_with_path(like)[0]]
        return list(zip(paths, leaves, strict=True))

    def _cotangent(self, path: Any, ct: Any, aval: ShapedArray) -> Any:
        wanted = aval.tangent()
        if ct is _NOTHING or type(ct) is Zero or wanted.dtype == dtypes.float0:
            return Zero(wanted)
        found = fitted(ct, wanted)
        if found is None:
            what = "shapes" if aval_of(ct).shape != wanted.shape else "dtypes"
            raise ValueError(
                three_lines(
                    f"gradient of {definition_of(self.of)}",
                    f"{self.title} must produce an output with the same "
                    f"type as the args tuple of the primal function, but at output{keystr(path)} "
                    f"the bwd rule produced an output of type {aval_of(ct)} corresponding to an "
                    f"input of type {aval}, so the {what} do not match",
                    "return a cotangent with the shape and dtype of its argument",
                )
            )
        return found


class MappedForward(Mapped):
    """A forward rule over stacks. Results are stacks along axis 0, residuals are unconstrained."""

    def __call__(
        self, primals: Sequence[Any], moving: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Any]:
        """Return stacks of results, residuals, and how to read them."""
        box: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            outs, residuals, info = self.inner(xs, moving)
            box[:] = [len(outs), info]
            return [*outs, *residuals]

        xs, at = batch(flat, self.axis, primals, self.in_axes, self.tag)
        count, info = box
        outs = [
            mapped_at(x, self.axis.size, a, 0) for x, a in zip(xs[:count], at[:count], strict=True)
        ]
        return outs, xs[count:], (tuple(at[count:]), info)


class MappedBackward(Mapped):
    """A backward rule over stacks: cotangents of unmapped inputs are summed."""

    def __call__(
        self, residuals: Sequence[Any], info: Any, cts: Sequence[Any], avals: Sequence[ShapedArray]
    ) -> list[Any]:
        """Return one cotangent per input."""
        residual_axes, inner_info = info
        inner_avals = [
            aval if at is None else unstacked(aval, at)
            for aval, at in zip(avals, self.in_axes, strict=True)
        ]
        moving = [not is_zero(ct) for ct in cts]
        still: list[bool] = []

        def flat(*xs: Any) -> list[Any]:
            inner = unstacked_zeros(moving, xs[len(residuals) :], cts)
            found = self.inner(xs[: len(residuals)], inner_info, inner, inner_avals)
            still[:] = map(is_zero, found)
            return [ct for ct in found if not is_zero(ct)]

        xs = [*residuals, *select_by(moving, cts)]
        axes = [*residual_axes, *[0] * sum(moving)]
        pairs = iter(zip(*batch(flat, self.axis, xs, axes, self.tag), strict=True))
        return [
            Zero(aval.tangent()) if s else self._placed(*next(pairs), want)
            for s, aval, want in zip(still, avals, self.in_axes, strict=True)
        ]

    def _placed(self, ct: Any, at: int | None, want: int | None) -> Any:
        if want is not None:
            return mapped_at(ct, self.axis.size, at, want)
        return reduce_sum(mapped_at(ct, self.axis.size, at, 0), (0,))


class RuleWithState(Record):
    """A rule `inner` behind `count` leading operands, a state that has no tangent."""

    inner: Callable[..., Any]
    count: int

    @property
    def __name__(self) -> str:
        return name_of(self.inner)


class ForwardWithState(RuleWithState):
    """A forward rule that returns the state as it is."""

    def __call__(
        self, primals: Sequence[Any], moving: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Any]:
        """Return the state and results, residuals, and how to read them."""
        count = self.count
        outs, residuals, info = self.inner(primals[count:], moving[count:])
        return [*primals[:count], *outs], residuals, info


class BackwardWithState(RuleWithState):
    """A backward rule with zeros for the state."""

    def __call__(
        self, residuals: Sequence[Any], info: Any, cts: Sequence[Any], avals: Sequence[ShapedArray]
    ) -> list[Any]:
        """Return one cotangent per input."""
        count = self.count
        found = self.inner(residuals, info, cts[count:], avals[count:])
        return [*[Zero(aval.tangent()) for aval in avals[:count]], *found]


class PullBack(Record):
    """The backward rule with its inputs other than residuals and cotangents of moving results."""

    rule: Callable[..., Any]
    info: Any
    in_avals: tuple[ShapedArray, ...]
    moving_in: tuple[bool, ...]
    out_avals: tuple[ShapedArray, ...]

    @property
    def __name__(self) -> str:
        return name_of(self.rule)

    @property
    def moving_out(self) -> list[bool]:
        """Which results have tangents."""
        return [a.tangent().dtype != dtypes.float0 for a in self.out_avals]

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Return cotangents of the moving inputs."""
        given = iter(cts)
        full = [
            next(given) if m else Zero(a.tangent())
            for m, a in zip(self.moving_out, self.out_avals, strict=True)
        ]
        return select_by(self.moving_in, self.rule(residuals, self.info, full, self.in_avals))


class MappedPullBack(Record):
    """A pull-back over stacks: all tangents and cotangents are stacks along axis 0."""

    inner: Any
    axis: MappedAxis
    residual_axes: tuple[int | None, ...]

    @property
    def __name__(self) -> str:
        return name_of(self.inner)

    @property
    def moving_out(self) -> list[bool]:
        """Which results have tangents."""
        return self.inner.moving_out

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the results."""
        return tuple(a.with_axis(0, self.axis.size) for a in self.inner.out_avals)

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Return cotangents of the moving inputs."""
        box: list[list[Any]] = []
        moving = [not is_zero(ct) for ct in cts]

        def flat(*xs: Any) -> list[Any]:
            given = unstacked_zeros(moving, xs[len(residuals) :], cts)
            box[:] = [self.inner(xs[: len(residuals)], given)]
            return [ct for ct in box[0] if not is_zero(ct)]

        axes = [*self.residual_axes, *[0] * sum(moving)]
        outs, at = batch(flat, self.axis, [*residuals, *select_by(moving, cts)], axes)
        given = iter([mapped_at(x, self.axis.size, a, 0) for x, a in zip(outs, at, strict=True)])
        return [
            Zero(ct.aval.with_axis(0, self.axis.size)) if is_zero(ct) else next(given)
            for ct in box[0]
        ]


def unstacked(aval: ShapedArray, at: int) -> ShapedArray:
    """Return the type of one element of a stack."""
    return aval.without_axis(at)


def unstacked_zeros(
    moving: Sequence[bool], given: Sequence[Any], stacks: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of one element: those given, and Zeros where the stack is Zero."""
    left = iter(given)
    return [
        next(left) if m else Zero(unstacked(ct.aval, 0))
        for m, ct in zip(moving, stacks, strict=True)
    ]
