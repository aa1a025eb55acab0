"""`linear_call`: a linear function with a user-defined transpose.

Both functions are recorded when it is called. The equation is linear in its last operands; the
others are residuals, which have no tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import tree_structure, tree_unflatten
from kiln.control.regions.bodies import arrays_of, check_callable, interned, stage_body
from kiln.control.regions.region import Extend, Region, avals_of
from kiln.core.absent import is_zero
from kiln.core.meaning import meaning
from kiln.core.staging import eval_jaxpr
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import stop_gradient
from kiln.ops.shape import filled, mapped_at
from kiln.transforms.batching import MappedAxis, batch_jaxpr


class LinearCall(Region):
    """Run `callee` on its constants, residuals and linear operands; `transpose` pulls back.

    Operands: constants of the callee, those of the transpose, residuals, linear operands.
    """

    name = "linear_call"

    def infer(self, *xs: Any, callee: Jaxpr, **_: Any) -> list[ShapedArray]:
        return callee.out_avals

    def numpy(self, *xs: Any, callee: Jaxpr, **params: Any) -> Any:
        return meaning(callee, _forwards(xs, params))

    def evaluate(self, *xs: Any, callee: Jaxpr, **params: Any) -> Any:
        return eval_jaxpr(callee, (), *_forwards(xs, params))

    def expand(self, *xs: Any, callee: Jaxpr, **params: Any) -> Any:
        return eval_jaxpr(callee, (), *_forwards(xs, params))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        first = _first_linear(params)
        if not all(map(is_zero, tangents[:first])):
            raise NotImplementedError(
                three_lines(
                    f"derivative of linear_call at {current_source()}",
                    "residuals, and values that the functions close over, have no derivative",
                    "apply stop_gradient to them, or pass them in linear_args",
                )
            )
        outs = self.bind(*primals, **params)
        return outs, self.bind(*primals[:first], *map(filled, tangents[first:]), **params)

    def transpose(self, cts: Sequence[Any], *xs: Any, **params: Any) -> Any:
        first = _first_linear(params)
        swapped = {
            "callee": params["transpose"],
            "transpose": params["callee"],
            "num_callee_consts": params["num_transpose_consts"],
            "num_transpose_consts": params["num_callee_consts"],
            "num_res": params["num_res"],
        }
        mine, others = params["num_callee_consts"], params["num_transpose_consts"]
        fixed = [*xs[mine : mine + others], *xs[:mine], *xs[mine + others : first]]
        pulled = self.bind(*fixed, *map(filled, cts), **swapped)
        return [*[None] * first, *pulled]

    def batch_over(
        self, axis: MappedAxis, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        # All linear operands and results are stacks: a cotangent must be one if its operand is.
        first = _first_linear(params)
        stacks = [
            mapped_at(x, axis.size, a, 0) for x, a in zip(xs[first:], axes[first:], strict=True)
        ]
        mapped = {**params}
        for name, places in (
            ("callee", _forwards([*axes[:first], *[0] * len(stacks)], params)),
            ("transpose", _backwards(axes[:first], params)),
        ):
            jaxpr = params[name]
            places += [0] * (len(jaxpr.invars) - len(places))
            mapped[name], _ = batch_jaxpr(jaxpr, axis, places, force=True)
        outs = self.bind(*xs[:first], *stacks, **mapped)
        return outs, [0] * len(outs)

    def thread_state(
        self,
        extend: Extend,
        state: Sequence[Any],
        xs: Sequence[Any],
        *,
        callee: Jaxpr,
        **params: Any,
    ) -> Any:
        """Run the extended callee beside it: the state is not a linear function of the operands."""
        fixed = [stop_gradient(x) for x in _forwards(xs, params)]
        after = eval_jaxpr(extend(callee), (), *state, *fixed)[: len(state)]
        return [*after, *self.bind(*xs, callee=callee, **params)]


def _first_linear(params: dict[str, Any]) -> int:
    return int(params["num_callee_consts"] + params["num_transpose_consts"] + params["num_res"])


def _forwards(xs: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return the operands of the callee."""
    mine, others = params["num_callee_consts"], params["num_transpose_consts"]
    return [*xs[:mine], *xs[mine + others :]]


def _backwards(fixed: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return the operands of the transpose before the cotangents."""
    return list(fixed[params["num_callee_consts"] :])


linear_call_p = LinearCall()


@api_boundary
def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """Return `fun(residual_args, linear_args)`, whose transpose is `fun_transpose(residuals, ct)`.

    Raises: TypeError if the cotangents have other types than `linear_args`.

    Example:
        >>> def scale(r, x):
        ...     return r * x
        >>> f = lambda x: kiln.custom_derivatives.linear_call(scale, scale, 3.0, x)
        >>> float(kiln.grad(f)(1.0))
        3.0
    """
    for what, function in (("fun", fun), ("fun_transpose", fun_transpose)):
        check_callable("linear_call", what, function)
    residuals, _ = arrays_of("linear_call", "residual_args", residual_args)
    linear, lin_tree = arrays_of("linear_call", "linear_args", linear_args)
    res_avals, lin_avals = avals_of(residuals), avals_of(linear)
    callee = stage_body(
        "linear_call", fun, tree_structure((residual_args, linear_args)), [*res_avals, *lin_avals]
    )
    cts = tree_unflatten(callee.out_tree, callee.out_avals)
    in_tree = tree_structure((residual_args, cts))
    back = stage_body("linear_call", fun_transpose, in_tree, [*res_avals, *callee.out_avals])
    wrong = back.out_tree != lin_tree or any(
        not a.same_type(b) for a, b in zip(back.out_avals, lin_avals, strict=True)
    )
    if wrong:
        raise TypeError(
            three_lines(
                f"linear_call of {name_of(fun)} at {current_source()}",
                f"{name_of(fun_transpose)} returns {list(map(str, back.out_avals))} "
                f"({back.out_tree}) for linear arguments {list(map(str, lin_avals))} ({lin_tree})",
                "return one cotangent for each linear argument, of its type",
            )
        )
    outs = linear_call_p.bind(
        *callee.consts,
        *back.consts,
        *residuals,
        *linear,
        callee=interned(callee.jaxpr),
        transpose=interned(back.jaxpr),
        num_callee_consts=len(callee.consts),
        num_transpose_consts=len(back.consts),
        num_res=len(residuals),
    )
    return tree_unflatten(callee.out_tree, outs)
