"""`sparsify`: functions of dense arrays, applied to sparse ones.

The function is recorded for dense arrays of the same types. Its program is then evaluated with
sparse values: an operation on one of them follows a rule; without a rule it raises an error instead
of silently making values dense.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.tree import PyTreeDef, tree_flatten, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.control.branches import switch
from kiln.control.loops.loops import scan, while_loop
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.experimental.sparse.array import JAXSparse
from kiln.experimental.sparse.bcsr import BCSR
from kiln.experimental.sparse.primitive_rules import BCOO_RULES, BCSR_RULES
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.types import ShapedArray

__all__ = ["sparsify"]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Return a function that applies `f`, a function of dense arrays, to sparse ones.

    Keyword arguments are passed unchanged. `use_tracer` has no effect.
    Raises: NotImplementedError, when called, for operations whose result would be dense, or that
        have no rule for sparse arrays. `sparse.todense(x)` in `f` makes a value dense.
    Example:
        >>> mat = sparse.BCOO.fromdense(jnp.eye(3))
        >>> sparse.sparsify(lambda m, v: 2 * m.T @ v)(mat, jnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
    """
    del use_tracer

    @wraps(f)
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten(args, _is_sparse)
        structure: list[PyTreeDef] = []

        def flat(*xs: Any) -> list[Any]:
            outs, out_tree = tree_flatten(f(*tree_unflatten(tree, xs), **kwargs))
            structure[:] = [out_tree]
            return outs

        types = [ShapedArray(x.shape, x.dtype) if _is_sparse(x) else aval_of(x) for x in leaves]
        program, consts = stage(flat, types, purpose="sparsify")
        return tree_unflatten(structure[0], evaluate(program, consts, leaves))

    return sparsified


def evaluate(program: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Return the outputs of a program for values, some of which are sparse.

    `consts` are the values of its constants.
    Raises: NotImplementedError for a primitive without a rule for sparse arrays.
    """
    env: dict[Any, Any] = dict(zip(program.constvars, consts, strict=True))
    env.update(zip(program.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if atom.is_literal else env[atom]

    for eqn in program.eqns:
        values = [read(atom) for atom in eqn.invars]
        if any(map(_is_sparse, values)):
            out = _apply(eqn, values)
        else:
            out = eqn.primitive.bind(*values, **eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple else [out], strict=True))
    return [jnp.asarray(atom.val) if atom.is_literal else env[atom] for atom in program.outvars]


def _apply(eqn: Eqn, values: list[Any]) -> Any:
    name = eqn.primitive.name
    if name in _STRUCTURED:
        return _STRUCTURED[name](values, **eqn.params)
    compressed = any(isinstance(x, BCSR) for x in values)
    rule = (BCSR_RULES if compressed else BCOO_RULES).get(name)
    if rule is None:
        raise NotImplementedError(
            three_lines(
                f"{name} of {', '.join(map(repr, values))}"[:200],
                f"sparse rule for {name} is not implemented"
                + (" for BCSR" if compressed else ": its result may be dense"),
                "if this is your intent, use sparse.todense() to convert your argument to a dense "
                "array",
            )
        )
    return rule(eqn.primitive, values, **eqn.params)


def _inline(name: str) -> Callable[..., list[Any]]:
    def rule(values: list[Any], **params: Any) -> list[Any]:
        return evaluate(params[name], (), values)

    return rule


def _cond(values: list[Any], *, branches: Sequence[Jaxpr], **_: Any) -> Any:
    index, *operands = values

    def taken(branch: Jaxpr) -> Callable[..., list[Any]]:
        return lambda *xs: evaluate(branch, (), xs)

    return switch(index, [taken(branch) for branch in branches], *operands)


def _while(
    values: list[Any],
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> Any:
    first, second = cond_nconsts, cond_nconsts + body_nconsts
    of_cond, of_body = values[:first], values[first:second]
    return while_loop(
        lambda carry: evaluate(cond_jaxpr, (), [*of_cond, *carry])[0],
        lambda carry: evaluate(body_jaxpr, (), [*of_body, *carry]),
        values[second:],
    )


def _scan(
    values: list[Any],
    *,
    jaxpr: Jaxpr,
    length: Any,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    unroll: int,
) -> Any:
    first = num_consts + num_carry
    consts, init, xs = values[:num_consts], values[num_consts:first], values[first:]
    if any(map(_is_sparse, xs)):
        raise NotImplementedError(
            three_lines(
                "scan over a sparse array",
                "sparse rule for scan with x values: there is no element of a sparse array that a "
                "step could take",
                "scan over indices, and read mat[i] in the body",
            )
        )

    def step(carry: Any, x: Any) -> Any:
        outs = evaluate(jaxpr, (), [*consts, *carry, *x])
        return outs[:num_carry], outs[num_carry:]

    carry, ys = scan(step, init, xs, length, reverse=reverse, unroll=unroll)
    return [*carry, *ys]


_STRUCTURED: dict[str, Callable[..., Any]] = {
    "jit": _inline("jaxpr"),
    "custom_jvp_call": _inline("call_jaxpr"),
    "custom_vjp_call": _inline("call_jaxpr"),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
