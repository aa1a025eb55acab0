"""Lifted derivatives of functions of modules, with respect to arguments and variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kiln.api.derivatives.linear import jvp as plain_jvp
from kiln.api.derivatives.linear import vjp as plain_vjp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import Partial, tree_map
from kiln.control.custom_rules.vjp import custom_vjp as plain_custom_vjp
from kiln.core.trace import aval_of
from kiln.linen.module import Module
from kiln.linen.scopes.filters import Filter, in_filter, intersect_filters, subtract_filters
from kiln.linen.transforms.axes import run_method
from kiln.linen.transforms.lift import Group, Lift, LiftedKeys, Target
from kiln.linen.transforms.lifted import required_module
from kiln.numpy.creation.filling import ones_like, zeros_like

Function = Callable[..., Any]


def vjp(
    fn: Function,
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    vjp_variables: Filter = "params",
    variables: Filter = True,
    rngs: Filter = True,
    multi_scope: bool = False,
) -> Any:
    """Return `fn(mdl, *primals)` and the function that pulls cotangents back.

    That function returns cotangents of the variables that `vjp_variables` selects, by collection,
    followed by those of the primals. If `has_aux`, `fn` returns a pair of the value to pull back
    and other values, and `vjp` returns a triple that ends with these. With `multi_scope`, the
    variables of all modules in use are returned as a tuple.

    Source: the documentation of `flax.linen.vjp`.
    Example:
        >>> class Pulled(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         out, pull = linen.vjp(lambda m, x: m(x).sum(), linen.Dense(2), x)
        ...         return pull(1.0)[1].shape
        >>> Pulled().init_with_output(random.key(0), jnp.ones((1, 3)))[0]
        (1, 3)
    """
    lift = Lift(required_module(mdl), (primals, {}))
    target = Target(fn)
    moving = lift.variables(intersect_filters(vjp_variables, variables))
    fixed = lift.variables(subtract_filters(variables, vjp_variables))
    keys = LiftedKeys(lift.roots(rngs), lift)

    def pure(moving: Group, *primals: Any) -> Any:
        application = lift.application({**fixed, **moving}, keys, variables)
        result = lift.run(target, application, (primals, {}), run_method)
        value, aux = result if has_aux else (result, None)
        return value, (aux, lift.written(application))

    value, back, (aux, written) = plain_vjp(
        pure, moving, *lift.values[0], has_aux=True, reduce_axes=reduce_axes
    )
    lift.commit(written)
    pull = Partial(_Pull(len(lift.tops), multi_scope), back)
    return (value, pull, aux) if has_aux else (value, pull)


class _Pull:
    """Arranges the cotangents of variables by scope."""

    def __init__(self, tops: int, multi_scope: bool) -> None:
        self.tops = tops
        self.multi_scope = multi_scope

    def __call__(self, back: Function, cotangent: Any) -> tuple[Any, ...]:
        group, *others = back(cotangent)
        return (by_scope(group, self.tops, self.multi_scope), *others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pull) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.tops, self.multi_scope))


def by_scope(group: Group, tops: int, several: bool) -> Any:
    """Return variables by collection; with several scopes, a tuple with one entry for each.

    `tops` is the number of scopes; `group` has trees by collection, then by number of the scope.
    """
    found = tuple(
        {name: trees[str(i)] for name, trees in group.items() if str(i) in trees}
        for i in range(tops)
    )
    return found if several else found[0]


def value_and_grad(
    fn: Function,
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Return the scalar `fn(mdl, *primals)`, and the tuple of its derivatives by the primals.

    If `has_aux`, `fn` returns a pair of the scalar and other values; so does the first result.

    Raises: TypeError if the result is not a scalar of a floating dtype.
    Source: the documentation of `flax.linen.value_and_grad`.
    Example:
        >>> class Both(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.value_and_grad(lambda m, x: x**2, self, x)
        >>> Both().apply({}, 3.0)
        (Array(9., dtype=float32, weak_type=True), (Array(6., dtype=float32, weak_type=True),))
    """
    value, back, *aux = vjp(
        fn,
        mdl,
        *primals,
        has_aux=has_aux,
        reduce_axes=reduce_axes,
        vjp_variables=False,
        variables=variables,
        rngs=rngs,
    )
    aval = aval_of(value)
    if aval.shape:
        raise TypeError(
            three_lines(
                f"value_and_grad of {getattr(fn, '__name__', fn)} at {current_source()}",
                f"Gradient only defined for scalar-output functions; the output is {aval}",
                "return a scalar, for example the sum",
            )
        )
    gradients = back(ones_like(value))[1:]
    return ((value, aux[0]), gradients) if has_aux else (value, gradients)


def grad(
    fn: Function,
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Return the tuple of the derivatives of the scalar `fn(mdl, *primals)` by the primals.

    If `has_aux`, `fn` returns a pair of the scalar and other values, which are returned second
    here.

    Raises: TypeError if the result is not a scalar of a floating dtype.
    Source: the documentation of `flax.linen.grad`.
    Example:
        >>> class Slope(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         scale = self.param("scale", linen.initializers.constant(3.0), ())
        ...         return linen.grad(lambda m, x: scale * x**2, self, x)
        >>> Slope().init_with_output(random.key(0), 2.0)[0]
        (Array(12., dtype=float32, weak_type=True),)
    """
    value, gradients = value_and_grad(
        fn,
        mdl,
        *primals,
        has_aux=has_aux,
        reduce_axes=reduce_axes,
        variables=variables,
        rngs=rngs,
    )
    return (gradients, value[1]) if has_aux else gradients


def jvp(
    fn: Function,
    mdl: Module,
    primals: Any,
    tangents: Any,
    variable_tangents: Mapping[str, Any],
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Return `fn(mdl, *primals)` and its tangent.

    `variable_tangents` gives tangents of variables by collection; the others are constant.

    Source: the documentation of `flax.linen.jvp`.
    Example:
        >>> class Moved(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.jvp(lambda m, x: x**2, self, (x,), (1.0,), {})
        >>> Moved().apply({}, 3.0)
        (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    lift = Lift(required_module(mdl), (tuple(primals), {}))
    target = Target(fn)
    found = lift.variables(variables)
    moving = {name: found.pop(name) for name in variable_tangents if name in found}
    movement = {
        name: {i: _movement(trees[i], variable_tangents[name], i) for i in trees}
        for name, trees in moving.items()
    }
    keys = LiftedKeys(lift.roots(rngs), lift)

    def pure(moving: Group, primals: Any) -> Any:
        application = lift.application({**found, **moving}, keys, variables)
        result = lift.run(target, application, (primals, {}), run_method)
        return result, lift.written(application)

    value, tangent, written = plain_jvp(
        pure, (moving, lift.values[0]), (movement, tuple(tangents)), has_aux=True
    )
    lift.commit(written)
    return value, tangent


def _movement(tree: Any, tangents: Any, number: str) -> Any:
    return tangents if number == "0" else tree_map(zeros_like, tree)


def custom_vjp(
    fn: Function,
    forward_fn: Function,
    backward_fn: Function,
    grad_vars: Filter = "params",
    nondiff_argnums: Any = (),
) -> Function:
    """Give a function of a module a custom reverse derivative.

    `forward_fn(mdl, *args)` returns the value and residuals; `backward_fn(*nondiff, residuals,
    cotangent)` returns cotangents of the variables of `grad_vars`, by collection, followed by those
    of the arguments. For `nondiff_argnums` the module is argument 0.

    Source: the documentation of `flax.linen.custom_vjp`.
    Example:
        >>> class Net(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         def forward(module, x):
        ...             return linen.vjp(lambda m, x: m(x), module, x)
        ...
        ...         def backward(pull, ct):
        ...             slopes, *inputs = pull(ct)
        ...             return kiln.tree.map(jnp.sign, slopes), *inputs
        ...
        ...         call = linen.custom_vjp(lambda m, x: m(x), forward, backward)
        ...         return call(linen.Dense(2), x)
        >>> net, x = Net(), jnp.ones((1, 3))
        >>> variables = net.init(random.key(0), x)
        >>> slopes = kiln.grad(lambda v: (5 * net.apply(v, x)).sum())(variables)
        >>> slopes["params"]["Dense_0"]["bias"]
        Array([1., 1.], dtype=float32)
    """
    numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)

    def run(mdl: Module, *args: Any) -> Any:
        lift = Lift(required_module(mdl), (args, {}))
        found = lift.variables(True)
        moving = {n: t for n, t in found.items() if in_filter(grad_vars, n)}
        fixed = {n: t for n, t in found.items() if n not in moving}
        roots = lift.roots()

        def inside(fun: Function, moving: Any, fixed: Any, roots: Any, args: Any) -> Any:
            application = lift.application({**fixed, **moving}, LiftedKeys(roots, lift))
            result = lift.run(Target(fun), application, (args, {}), run_method)
            return result, lift.written(application)

        def pure(moving: Any, fixed: Any, roots: Any, *args: Any) -> Any:
            return inside(fn, moving, fixed, roots, args)

        def forward(moving: Any, fixed: Any, roots: Any, *args: Any) -> Any:
            (value, residuals), written = inside(forward_fn, moving, fixed, roots, args)
            return (value, written), residuals

        def backward(*values: Any) -> Any:
            *constant, residuals, (cotangent, _) = values
            own, *others = backward_fn(*constant, residuals, cotangent)
            several = own if isinstance(own, (tuple, list)) else (own,)
            group: Group = {
                name: {i: several[int(i)][name] for i in trees} for name, trees in moving.items()
            }
            return (group, None, None, *others)

        differentiable = plain_custom_vjp(pure, nondiff_argnums=[i + 2 for i in numbers])
        differentiable.defvjp(forward, backward)
        value, written = differentiable(moving, fixed, roots, *lift.values[0])
        lift.commit(written)
        return value

    return run
