"""Lifted transformations that preserve shapes: recomputation, mapped variables, keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.control.checkpoint import checkpoint as plain_checkpoint
from kiln.linen import metadata
from kiln.linen.module import Module
from kiln.linen.scopes.filters import (
    Filter,
    in_filter,
    intersect_filters,
    is_filter_empty,
    subtract_filters,
)
from kiln.linen.scopes.rng import FoldedKeys, Path
from kiln.linen.transforms.axes import In, Out, Params, run_method, scan
from kiln.linen.transforms.lift import Group, Lift, LiftedKeys, Roots, Target
from kiln.linen.transforms.lifted import Apply, lift_target, lifted_function
from kiln.random.keys import fold_in


def checkpoint(
    target: Any,
    variables: Filter = True,
    rngs: Filter = True,
    concrete: bool = False,
    prevent_cse: bool = True,
    static_argnums: int | tuple[int, ...] = (),
    policy: Callable[..., bool] | None = None,
    methods: Any = None,
) -> Any:
    """Recompute methods of a module class, or a function of a module, in reverse mode.

    `static_argnums` counts the module as argument 0. `policy` selects intermediates that are stored
    anyway; `prevent_cse` keeps the compiler from merging the computations; `concrete` is ignored.

    Source: the documentation of `flax.linen.checkpoint`.
    Example:
        >>> Dense = linen.remat(linen.Dense)
        >>> Dense(2).init_with_output(random.key(0), jnp.ones(3))[0].shape
        (2,)
    """
    given = {
        "variables": variables,
        "rngs": rngs,
        "prevent_cse": prevent_cse,
        "static_argnums": static_argnums,
        "policy": policy,
        "concrete": concrete,
    }

    def make(method: Target, changed: dict[str, Any]) -> Apply:
        return _checkpointed(**{**given, **changed})

    return lift_target(target, make, "Checkpoint", methods)


remat = checkpoint


def _checkpointed(
    variables: Filter,
    rngs: Filter,
    prevent_cse: bool,
    static_argnums: int | tuple[int, ...],
    policy: Callable[..., bool] | None,
    concrete: bool,
) -> Apply:
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    def apply(target: Target, module: Module, args: tuple[Any, ...], kwargs: Any) -> Any:
        count = len(args) + 1
        static = {i + count if i < 0 else i for i in numbers}
        constant = {i - 1: args[i - 1] for i in static if 0 < i < count}
        dynamic = tuple([x for i, x in enumerate(args) if i not in constant])
        lift = Lift(module, (dynamic, kwargs))

        def pure(group: Group, roots: Roots, values: Any) -> Any:
            dynamic, named = values
            rest = iter(dynamic)
            full = [constant[i] if i in constant else next(rest) for i in range(len(args))]
            application = lift.application(group, LiftedKeys(roots, lift), variables)
            result = lift.run(target, application, (full, named), run_method)
            return result, lift.written(application)

        result, written = plain_checkpoint(pure, prevent_cse=prevent_cse, policy=policy)(
            lift.variables(variables), lift.roots(rngs), lift.values
        )
        lift.commit(written)
        return result

    return apply


def named_call(class_fn: Any, force: bool = True) -> Any:
    """Return a module class or function unchanged: operations are not named after modules.

    `class_fn` is returned as it is; `force` has no effect.

    Example:
        >>> linen.named_call(linen.Dense) is linen.Dense
        True
    """
    return class_fn


def remat_scan(
    target: Any,
    lengths: Sequence[int] | None = (),
    policy: Callable[..., bool] | None = None,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    variable_axes: Mapping[Any, Any] = {True: 0},
    split_rngs: Mapping[Any, bool] = {True: True},
) -> Any:
    """Apply a module `prod(lengths)` times in sequence, in nested loops that store little.

    The module takes one value and returns one of the same type. Each loop except the innermost
    recomputes its steps for the derivative.

    Source: the documentation of `flax.linen.remat_scan`.
    Example:
        >>> class Deep(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.remat_scan(linen.Dense, lengths=(2, 3))(4)(x)
        >>> kiln.tree.map(jnp.shape, Deep().init(random.key(0), jnp.ones((1, 4))))
        {'params': {'Remat_scanDense_0': {'bias': (2, 3, 4), 'kernel': (2, 3, 4, 4)}}}
    """
    options: dict[str, Any] = {
        "variable_broadcast": variable_broadcast,
        "variable_carry": variable_carry,
        "variable_axes": variable_axes,
        "split_rngs": split_rngs,
    }

    def nested(fun: Callable[..., Any], lengths: Sequence[int]) -> Callable[..., Any]:
        if len(lengths) == 1:

            def once(module: Module, carry: Any) -> Any:
                return fun(module, carry), None

            looped = scan(_marked(once), length=lengths[0], **options)
            return lambda module, carry: looped(module, carry)[0]
        again = nested(fun, lengths[1:])
        repeated = checkpoint(_marked(again), policy=policy, prevent_cse=False)
        looped = scan(
            _marked(lambda module, carry: (repeated(module, carry), None)),
            length=lengths[0],
            **options,
        )
        return lambda module, carry: looped(module, carry)[0]

    def make(method: Target, changed: dict[str, Any]) -> Apply:
        def body(module: Module, carry: Any) -> Any:
            return method.run(module, (carry,), {})

        run = nested(body, tuple(lengths or ()))
        return lambda target, module, args, kwargs: run(module, *args, **kwargs)

    return lift_target(target, make, "Remat_scan")


def _marked(fun: Callable[..., Any]) -> Callable[..., Any]:
    # Not wrapped as a method nor captured: it only passes the module on.
    return lifted_function(fun, lambda target, module, args, kwargs: fun(module, *args, **kwargs))


def _identity(x: Any) -> Any:
    return x


def map_variables(
    target: Any,
    mapped_collections: Filter = True,
    trans_in_fn: Callable[..., Any] = _identity,
    trans_out_fn: Callable[..., Any] = _identity,
    init: bool = False,
    mutable: bool = False,
    rngs: Filter = True,
    variables: Filter = True,
    methods: Any = None,
) -> Any:
    """Transform some of the collections that a module sees.

    `trans_in_fn` maps a dictionary of the mapped collections to the one seen inside. With `init`,
    the untransformed module creates the variables, and `trans_out_fn` maps them back; with
    `mutable`, what the module writes is mapped back too.

    Source: the documentation of `flax.linen.map_variables`.
    Example:
        >>> def doubled(variables):
        ...     return kiln.tree.map(lambda w: 2 * w, variables)
        >>> Doubled = linen.map_variables(linen.Dense, "params", trans_in_fn=doubled)
        >>> variables = {"params": {"kernel": jnp.ones((3, 1)), "bias": jnp.ones(1)}}
        >>> Doubled(1).apply(variables, jnp.ones((1, 3)))
        Array([[8.]], dtype=float32)
    """
    given = {
        "mapped_collections": mapped_collections,
        "trans_in_fn": trans_in_fn,
        "trans_out_fn": trans_out_fn,
        "init": init,
        "mutable": mutable,
        "rngs": rngs,
        "variables": variables,
    }

    def make(method: Target, changed: dict[str, Any]) -> Apply:
        return _mapped(**{**given, **changed})

    return lift_target(target, make, "Map_variables", methods)


def _mapped(
    mapped_collections: Filter,
    trans_in_fn: Callable[..., Any],
    trans_out_fn: Callable[..., Any],
    init: bool,
    mutable: bool,
    rngs: Filter,
    variables: Filter,
) -> Apply:
    others = subtract_filters(variables, mapped_collections)

    def apply(target: Target, module: Module, args: tuple[Any, ...], kwargs: Any) -> Any:
        lift = Lift(module, (args, kwargs))
        mapped, rest = lift.variables(mapped_collections), lift.variables(others)
        keys = LiftedKeys(lift.roots(rngs), lift)
        may_write = intersect_filters(lift.mutable, mapped_collections)
        if init and not is_filter_empty(may_write):
            application = lift.application({**mapped, **rest}, keys)
            lift.run(target, application, lift.values, run_method)
            made = lift.written(application, may_write)
            mapped = {**mapped, **_by_top(trans_out_fn, made)}
        inside = {**_by_top(trans_in_fn, mapped), **rest}
        writes = mutable or init
        application = lift.application(inside, keys, variables if writes else others)
        result = lift.run(target, application, lift.values, run_method)
        written = lift.written(application)
        own = {n: t for n, t in written.items() if in_filter(mapped_collections, n)}
        kept = {n: t for n, t in written.items() if n not in own}
        lift.commit(kept, _by_top(trans_out_fn, own))
        return result

    return apply


def _by_top(change: Callable[..., Any], group: Group) -> Group:
    """Apply a function of collections to those of each top."""
    numbers = dict.fromkeys(number for trees in group.values() for number in trees)
    changed: Group = {}
    for number in numbers:
        given = {name: trees[number] for name, trees in group.items() if number in trees}
        for name, tree in change(given).items():
            changed.setdefault(name, {})[number] = tree
    return changed


def add_metadata_axis(
    target: Any,
    variable_axes: Mapping[Any, Any] = {},
    metadata_params: Params = {},  # noqa: B006
) -> Any:
    """Notify the boxes of variables of an axis that the module does not see.

    Source: the documentation of `flax.linen.add_metadata_axis`.
    Example:
        >>> layer = linen.add_metadata_axis(linen.Dense, {"params": 0})(2)
        >>> layer.init_with_output(random.key(0), jnp.ones((1, 3)))[0].shape
        (1, 2)
    """
    for wanted, axis in variable_axes.items():
        index = axis.axis if isinstance(axis, (In, Out)) else axis
        target = _with_metadata(target, wanted, index, metadata_params)
    return target


def _with_metadata(target: Any, wanted: Filter, axis: Any, params: Params) -> Any:
    def remove(tree: Any) -> Any:
        return metadata.remove_axis(tree, axis, params)

    def add(tree: Any) -> Any:
        return metadata.add_axis(tree, axis, params)

    return map_variables(target, wanted, remove, add, mutable=True, init=True)


class _FoldedAnew:
    """Keys whose roots were drawn here: paths start again from here."""

    __slots__ = ("roots",)

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def __contains__(self, name: object) -> bool:
        return name in self.roots

    def number(self, name: str, path: Path, count: int) -> Any:
        """Return the hash of the path below the module, and the count."""
        return FoldedKeys({}).number(name, path[1:], count)

    def draw(self, name: str, path: Path, count: int) -> Any:
        """Return the key of a draw."""
        return fold_in(self.roots[name], self.number(name, path, count))


def fold_rngs(target: Any, variables: Filter = True, rngs: Filter = True) -> Any:
    """Restart the streams of keys at a module, from keys that it draws.

    Source: the documentation of `flax.linen.fold_rngs`.
    Example:
        >>> layer = linen.fold_rngs(linen.Dense)(2)
        >>> layer.init_with_output(random.key(0), jnp.ones((1, 3)))[0].shape
        (1, 2)
    """

    def apply(target: Target, module: Module, args: tuple[Any, ...], kwargs: Any) -> Any:
        lift = Lift(module, (args, kwargs))
        top = lift.tops[0]
        drawn = {
            name: lift.shared.keys.draw(name, top.inner, top.counts.next(name))
            for name in lift.roots(rngs)
        }
        application = lift.application(lift.variables(variables), _FoldedAnew(drawn), variables)
        result = lift.run(target, application, lift.values, run_method)
        lift.commit(lift.written(application))
        return result

    return lift_target(target, lambda method, changed: apply, "Fold_rngs")
