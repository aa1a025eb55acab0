"""Differentiation: pytrees, argument numbers and checks around the transformations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.api.vmap import vmap
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import (
    Partial,
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from kiln.core.absent import Zero
from kiln.core.array import ConcreteArray, from_host
from kiln.core.compilation import as_array
from kiln.core.trace import Tracer, aval_of
from kiln.ir.types import ShapedArray
from kiln.jit.tracing import leaf_type
from kiln.ops.shape import filled, full, reshape
from kiln.transforms import reverse
from kiln.transforms.jvp import jvp as jvp_flat


def _array(x: Any) -> Any:
    return x if isinstance(x, (ConcreteArray, Tracer)) else as_array(x)


def _value(t: Any) -> Any:
    """Return a tangent as an array; of dtype float0 as a NumPy array."""
    if type(t) is Zero:
        if t.aval.dtype == dtypes.float0:
            return np.zeros(t.aval.shape, dtypes.float0)
        return filled(t)
    return t


def _leaves_of(fun: Any, what: str, tree: Any) -> tuple[list[Any], PyTreeDef]:
    pairs, treedef = tree_flatten_with_path(tree)
    for path, x in pairs:
        if leaf_type(x) is None:
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} at {current_source()}",
                    f"the value of type {type(x)} at path {keystr(path) or '*'} "
                    "is not a valid JAX type",
                    "pass arrays and numbers",
                )
            )
    return [_array(x) for _, x in pairs], treedef


def _argnums(fun: Any, argnums: Any, count: int, what: str) -> tuple[int, ...]:
    nums = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    if not nums:
        raise ValueError(f"{what} of {name_of(fun)}: argnums must name at least one argument")
    for i in nums:
        if not isinstance(i, (int, np.integer)):
            raise TypeError(f"{what} of {name_of(fun)}: argnums must be ints, got {argnums!r}")
        if not -count <= i < count:
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} with argnums={argnums} at {current_source()}",
                    f"differentiating with respect to {argnums=} requires at least "
                    f"{i + 1 if i >= 0 else -i} positional arguments to be passed by the caller, "
                    f"but got only {count} positional arguments",
                    "pass the arguments by position",
                )
            )
    return tuple(int(i) % count for i in nums)


def _check_input(fun: Any, what: str, x: Any, *, holomorphic: bool, allow_int: bool) -> None:
    dtype = aval_of(x).dtype
    name = dtypes.long_name(dtype)
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} with holomorphic=True at {current_source()}",
                    f"{what} with holomorphic=True requires inputs with complex dtype, got {name}",
                    "convert the input: x.astype('complex64')",
                )
            )
    elif dtypes.issubdtype(dtype, np.integer) or dtype == np.bool_ or dtypes.is_extended(dtype):
        if not allow_int:
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} at {current_source()}",
                    f"{what} requires real- or complex-valued inputs (input dtype that is a "
                    f"sub-dtype of np.inexact), but got {name}",
                    "convert the input: x.astype('float32'), or differentiate another argument "
                    "with argnums=",
                )
            )


def _check_output(fun: Any, what: str, aval: ShapedArray, *, holomorphic: bool) -> None:
    name = dtypes.long_name(aval.dtype)
    if aval.shape != ():
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} at {current_source()}",
                f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}.",
                "reduce the output to a scalar (sum, mean), or use jacrev or vjp",
            )
        )
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} with holomorphic=True at {current_source()}",
                    f"{what} with holomorphic=True requires outputs with complex dtype, got {name}",
                    "leave holomorphic out",
                )
            )
    elif not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} at {current_source()}",
                f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
                f"np.floating), but got {name}",
                "for complex outputs use holomorphic=True or take the real part; for integer "
                "ones convert to float",
            )
        )


def _split(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Any, nums: Sequence[int]
) -> tuple[list[Any], Any]:
    """Return the chosen arguments, and the function of them alone."""

    def partial(*chosen: Any) -> Any:
        full_args = list(args)
        for i, x in zip(nums, chosen, strict=True):
            full_args[i] = x
        return fun(*full_args, **kwargs)

    return [args[i] for i in nums], partial


def _pair(fun: Any, what: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} with has_aux=True at {current_source()}",
                "expected function with aux output to return a two-element tuple, but got "
                f"{type(result)}" + (f" of length {len(result)}" if isinstance(result, tuple) else ""),
                "return (value, aux), or leave has_aux out",
            )
        )
    return result


class _Aux:
    """Carries the auxiliary outputs out of a differentiated function, as values of its parent."""

    def __init__(self) -> None:
        self.tree: Any = None

    def put(self, aux: Any) -> list[Any]:
        leaves, self.tree = tree_flatten(aux)
        return leaves

    def get(self, leaves: Sequence[Any]) -> Any:
        return tree_unflatten(self.tree, leaves)


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that returns the value of `fun` and its gradient.

    Shapes: the gradient has the structure and shapes of the arguments `argnums`.
    Raises: TypeError for non-scalar, integer or complex outputs, for integer inputs, for argnums
        out of range, and for a missing auxiliary output.
    """
    return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")


def _value_and_grad(
    fun: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    what: str,
) -> Callable[..., tuple[Any, Any]]:
    _require_callable(fun, what)

    @functools.wraps(fun, updated=())
    @api_boundary
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        nums = _argnums(fun, argnums, len(args), what)
        chosen, partial = _split(fun, args, kwargs, nums)
        leaves, tree = _leaves_of(fun, what, tuple(chosen))
        for x in leaves:
            _check_input(fun, what, x, holomorphic=holomorphic, allow_int=allow_int)
        aux = _Aux()

        def flat(*xs: Any) -> list[Any]:
            result = partial(*tree_unflatten(tree, xs))
            extra: list[Any] = []
            if has_aux:
                result, side = _pair(fun, what, result)
                extra = aux.put(side)
            if leaf_type(result) is None:
                raise TypeError(
                    three_lines(
                        f"{what} of {name_of(fun)} at {current_source()}",
                        "Gradient only defined for scalar-output functions. Output was "
                        f"{str(result)[:60]} of {type(result)}",
                        "return one scalar, or (value, aux) with has_aux=True",
                    )
                )
            return [result, *extra]

        outs, program = _linearize_first(flat, leaves)
        aval = aval_of(outs[0])
        _check_output(fun, what, aval, holomorphic=holomorphic)
        one = full((), 1, aval.dtype)
        pulled = [_value(ct) for ct in program.pull([one])]
        grads = tree_unflatten(tree, pulled)
        grad_result = grads[0] if isinstance(argnums, (int, np.integer)) else grads
        value = _array(outs[0])
        if has_aux:
            return (value, aux.get(outs[1:])), grad_result
        return value, grad_result

    return differentiated


def _linearize_first(
    flat: Callable[..., Sequence[Any]], leaves: Sequence[Any]
) -> tuple[list[Any], reverse.LinearProgram]:
    """Linearize with respect to the first output; the others are returned as plain values."""
    outs, program = reverse.linearize(flat, leaves)
    if len(outs) == 1:
        return outs, program
    kept = sum(program.moving_out[:1])
    jaxpr = program.jaxpr.with_(outvars=program.jaxpr.outvars[:kept])
    first = reverse.LinearProgram(
        jaxpr,
        program.residuals,
        program.in_avals,
        program.out_avals[:1],
        program.moving_in,
        program.moving_out[:1],
    )
    return outs, first


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the gradient of the scalar function `fun`.

    With `has_aux` the result is (gradient, aux).

    Raises: as `value_and_grad`.
    """
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @functools.wraps(fun, updated=())
    @api_boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def _require_callable(fun: Any, what: str) -> None:
    if not callable(fun):
        raise TypeError(f"{what}: Expected a callable value, got {fun!r}")


def _check_tangents(
    fun: Any, what: str, primals: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    checked = []
    for p, t in zip(primals, tangents, strict=True):
        want = aval_of(p).tangent()
        if want.dtype == dtypes.float0:
            if getattr(t, "dtype", None) != dtypes.float0:
                raise TypeError(_tangent_message(fun, what, p, t, want, "dtypes"))
            checked.append(Zero(want))
            continue
        got = aval_of(t)
        if got.shape != want.shape:
            raise ValueError(_tangent_message(fun, what, p, t, want, "shapes"))
        if got.dtype != want.dtype and not got.weak_type:
            raise TypeError(_tangent_message(fun, what, p, t, want, "dtypes"))
        if isinstance(t, Tracer) and got.dtype == want.dtype:
            checked.append(t)
        else:
            value = _array(t)
            if got.dtype != want.dtype:
                value = from_host(np.asarray(value).astype(want.dtype))
            checked.append(value)
    return checked


def _tangent_message(fun: Any, what: str, p: Any, t: Any, want: ShapedArray, kind: str) -> str:
    got = getattr(t, "dtype", type(t)) if kind == "dtypes" else np.shape(t)
    return three_lines(
        f"{what} of {name_of(fun)} at {current_source()}",
        f"primal and tangent arguments to jvp must have equal {kind}: a primal of type "
        f"{aval_of(p)} needs a tangent of type {want}, got {got}",
        f"give a tangent of type {want}",
    )


def _trees(fun: Any, what: str, primals: Any, tangents: Any) -> None:
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} at {current_source()}",
                    f"{name} must be a tuple or list, got {type(value)}",
                    f"write ({name},)",
                )
            )
    if tree_structure(tuple(primals)) != tree_structure(tuple(tangents)):
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} at {current_source()}",
                "primal and tangent arguments to jvp must have the same tree structure, got "
                f"{tree_structure(tuple(primals))} and {tree_structure(tuple(tangents))}",
                "give one tangent per primal",
            )
        )


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Return the value of `fun` at the primals and its directional derivative along the tangents.

    Raises: TypeError for tangents of another structure or dtype, ValueError of another shape.
    """
    _require_callable(fun, "jvp")
    _trees(fun, "jvp", primals, tangents)
    leaves, tree = _leaves_of(fun, "jvp", tuple(primals))
    moved = _check_tangents(fun, "jvp", leaves, tree_leaves(tuple(tangents)))
    box: list[Any] = []
    aux = _Aux()

    def flat(*xs: Any) -> list[Any]:
        result = fun(*tree_unflatten(tree, xs))
        extra: list[Any] = []
        if has_aux:
            result, side = _pair(fun, "jvp", result)
            extra = aux.put(side)
        outs, out_tree = _result(fun, "jvp", result)
        box[:] = [out_tree, len(outs)]
        return [*outs, *extra]

    outs, out_tangents = jvp_flat(flat, leaves, moved)
    out_tree, count = box
    value = tree_unflatten(out_tree, [_array(x) for x in outs[:count]])
    tangent = tree_unflatten(out_tree, [_value(t) for t in out_tangents[:count]])
    return (value, tangent, aux.get(outs[count:])) if has_aux else (value, tangent)


def _result(fun: Any, what: str, result: Any) -> tuple[list[Any], Any]:
    pairs, tree = tree_flatten_with_path(result)
    for path, x in pairs:
        if leaf_type(x) is None:
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)}",
                    f"the value of type {type(x)} at output path {keystr(path) or '*'} "
                    "is not a valid JAX type",
                    "return arrays and numbers",
                )
            )
    return [x for _, x in pairs], tree


@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """Return the value of `fun` and a function from a cotangent of it to those of the primals.

    Raises: ValueError if the cotangent's structure, shapes or dtypes are not those of the value.
    """
    _require_callable(fun, "vjp")
    leaves, tree = _leaves_of(fun, "vjp", primals)
    box: list[Any] = []
    aux = _Aux()

    def flat(*xs: Any) -> list[Any]:
        result = fun(*tree_unflatten(tree, xs))
        extra: list[Any] = []
        if has_aux:
            result, side = _pair(fun, "vjp", result)
            extra = aux.put(side)
        outs, out_tree = _result(fun, "vjp", result)
        box[:] = [out_tree, len(outs)]
        return [*outs, *extra]

    outs, program = reverse.linearize(flat, leaves)
    out_tree, count = box
    kept = sum(program.moving_out[:count])
    meta = _PullMeta(
        program.jaxpr.with_(outvars=program.jaxpr.outvars[:kept]),
        tuple(program.in_avals),
        tuple(program.out_avals[:count]),
        tuple(program.moving_in),
        tuple(program.moving_out[:count]),
        tree,
        out_tree,
        name_of(fun),
    )
    pull = Partial(functools.partial(_pull, meta), *program.residuals)
    value = tree_unflatten(out_tree, [_array(x) for x in outs[:count]])
    return (value, pull, aux.get(outs[count:])) if has_aux else (value, pull)


class _PullMeta:
    """What a vjp function knows beside its residuals."""

    def __init__(
        self,
        jaxpr: Any,
        in_avals: Any,
        out_avals: Any,
        moving_in: Any,
        moving_out: Any,
        in_tree: Any,
        out_tree: Any,
        name: str,
    ) -> None:
        self.jaxpr = jaxpr
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.moving_in = moving_in
        self.moving_out = moving_out
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.name = name

    def program(self, residuals: Sequence[Any]) -> reverse.LinearProgram:
        """Return the linear program with its residuals."""
        return reverse.LinearProgram(
            self.jaxpr,
            list(residuals),
            list(self.in_avals),
            list(self.out_avals),
            list(self.moving_in),
            list(self.moving_out),
        )


@api_boundary
def _pull(meta: _PullMeta, *args: Any) -> Any:
    *residuals, cotangent = args
    leaves, tree = tree_flatten(cotangent)
    if tree != meta.out_tree:
        raise ValueError(
            three_lines(
                f"vjp function of {meta.name} at {current_source()}",
                f"unexpected tree structure of argument to vjp function: got {tree}, "
                f"but expected to match {meta.out_tree}",
                "give a cotangent of the structure of the function's value",
            )
        )
    checked: list[Any] = []
    for ct, aval in zip(leaves, meta.out_avals, strict=True):
        want = aval.tangent()
        if want.dtype == dtypes.float0:
            checked.append(Zero(want))
            continue
        got = aval_of(ct)
        if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
            raise ValueError(
                three_lines(
                    f"vjp function of {meta.name} at {current_source()}",
                    f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                    f"{got.str_short(short_dtypes=False)}, but expected {want}",
                    "give a cotangent of the type of the function's value",
                )
            )
        if got.dtype != want.dtype and not isinstance(ct, Tracer):
            ct = from_host(np.asarray(ct, dtype=want.dtype))
        checked.append(ct if isinstance(ct, Tracer) else _array(ct))
    pulled = meta.program(residuals).pull(checked)
    return tree_unflatten(meta.in_tree, [_value(ct) for ct in pulled])


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of `fun` and the function from tangents to its derivative there.

    Raises: TypeError for tangents of other types than the primals.
    """
    _require_callable(fun, "linearize")
    leaves, tree = _leaves_of(fun, "linearize", primals)
    box: list[Any] = []
    aux = _Aux()

    def flat(*xs: Any) -> list[Any]:
        result = fun(*tree_unflatten(tree, xs))
        extra: list[Any] = []
        if has_aux:
            result, side = _pair(fun, "linearize", result)
            extra = aux.put(side)
        outs, out_tree = _result(fun, "linearize", result)
        box[:] = [out_tree, len(outs)]
        return [*outs, *extra]

    outs, program = reverse.linearize(flat, leaves)
    out_tree, count = box

    @api_boundary
    def push(*tangents: Any) -> Any:
        _trees(fun, "linearize", primals, tangents)
        moved = _check_tangents(fun, "linearize", leaves, tree_leaves(tangents))
        return tree_unflatten(out_tree, [_value(t) for t in program.push(moved)[:count]])

    value = tree_unflatten(out_tree, [_array(x) for x in outs[:count]])
    return (value, push, aux.get(outs[count:])) if has_aux else (value, push)


def _basis(tree: Any) -> Any:
    """Return, per leaf, the unit vectors of the whole tree's space, stacked in front."""
    leaves, treedef = tree_flatten(tree)
    sizes = [aval_of(x).size for x in leaves]
    total = sum(sizes)
    offset = 0
    stacks = []
    for x, size in zip(leaves, sizes, strict=True):
        aval = aval_of(x)
        unit = np.zeros((total, size), aval.dtype)
        unit[offset : offset + size] = np.eye(size, dtype=aval.dtype)
        stacks.append(from_host(unit.reshape(total, *aval.shape)))
        offset += size
    return tree_unflatten(treedef, stacks)


def _unstack(stack: Any, leaves: Sequence[Any], treedef: Any, axis: int) -> Any:
    """Cut the basis axis of a stack into the leaves' shapes, placed at `axis`."""
    from_shapes = [aval_of(x).shape for x in leaves]
    out, offset = [], 0
    for shape in from_shapes:
        size = int(np.prod(shape, dtype=np.int64))
        index = [slice(None)] * stack.ndim
        index[axis] = slice(offset, offset + size)
        piece = stack[tuple(index)]
        full_shape = (*stack.shape[:axis], *shape, *stack.shape[axis + 1 :])
        out.append(reshape(piece, full_shape) if full_shape != piece.shape else piece)
        offset += size
    return tree_unflatten(treedef, out)


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fun`, column by column (forward mode).

    Shapes: for an output of shape S and an argument of shape A, (*S, *A).
    """
    _require_callable(fun, "jacfwd")

    @functools.wraps(fun, updated=())
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        nums = _argnums(fun, argnums, len(args), "jacfwd")
        chosen, partial = _split(fun, args, kwargs, nums)
        leaves, tree = _leaves_of(fun, "jacfwd", tuple(chosen))
        for x in leaves:
            _check_input(fun, "jacfwd", x, holomorphic=holomorphic, allow_int=False)
        values = tree_unflatten(tree, leaves)
        side: list[Any] = []

        def push(*tangents: Any) -> Any:
            out = jvp(partial, values, tangents, has_aux=has_aux)
            if has_aux:
                side[:] = [out[2]]
                return out[1], out[2]
            return out[1]

        basis = _basis(values)
        if has_aux:
            stacked, aux = vmap(push, out_axes=(-1, None))(*basis)
        else:
            stacked, aux = vmap(push, out_axes=-1)(*basis), None
        single = isinstance(argnums, (int, np.integer))
        inner = tree_structure(values[0]) if single else tree
        jac = tree_map(lambda s: _unstack(s, leaves, inner, s.ndim - 1), stacked)
        return (jac, aux) if has_aux else jac

    return jacobian_of


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fun`, row by row (reverse mode).

    Shapes: for an output of shape S and an argument of shape A, (*S, *A).
    """
    _require_callable(fun, "jacrev")

    @functools.wraps(fun, updated=())
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        nums = _argnums(fun, argnums, len(args), "jacrev")
        chosen, partial = _split(fun, args, kwargs, nums)
        leaves, tree = _leaves_of(fun, "jacrev", tuple(chosen))
        for x in leaves:
            _check_input(fun, "jacrev", x, holomorphic=holomorphic, allow_int=allow_int)
        result = vjp(partial, *tree_unflatten(tree, leaves), has_aux=has_aux)
        value, pull, *aux = result
        rows = vmap(pull)(_basis(value))
        out_leaves, out_tree = tree_flatten(value)
        pieces = [_unstack(r, out_leaves, out_tree, 0) for r in tree_leaves(rows)]
        transposed = [
            tree_unflatten(tree, [tree_leaves(p)[i] for p in pieces])
            for i in range(len(out_leaves))
        ]
        single = isinstance(argnums, (int, np.integer))
        jac = tree_unflatten(out_tree, [t[0] if single else t for t in transposed])
        return (jac, aux[0]) if has_aux else jac

    return jacobian_of


jacobian = jacrev


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the Hessian of `fun`.

    Shapes: for a scalar function of an argument of shape A, (*A, *A).
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a function that is linear in all its arguments.

    Only the types of the primals matter; they may be ShapeDtypeStructs.
    """
    leaves, tree = tree_flatten(primals)
    zeros = [full(aval_of(x).shape, 0, aval_of(x).dtype) for x in leaves]
    _, pull = vjp(fun, *tree_unflatten(tree, zeros))

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        return pull(cotangent)  # type: ignore[no-any-return]

    return transposed

