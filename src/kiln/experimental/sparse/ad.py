"""Derivatives with respect to the stored values of sparse arrays, as arrays with equal indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.api.derivatives import grad as dense
from kiln.api.derivatives import jacobian as dense_jacobian
from kiln.api.mapping.vmap import vmap
from kiln.base.tree import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.experimental.sparse.array import JAXSparse

__all__ = ["grad", "is_sparse", "jacfwd", "jacobian", "jacrev", "value_and_grad"]

Argnums = int | Sequence[int]


def is_sparse(x: Any) -> bool:
    """Tell whether a value is a sparse array."""
    return isinstance(x, JAXSparse)


class _Flat:
    """A call whose arguments are flattened to buffers, some of which are differentiated."""

    def __init__(self, fun: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...]) -> None:
        self.fun = fun
        self.chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self.parts = [tree_flatten(x, is_sparse) for x in args]
        self.buffers: list[Any] = []
        self.argnums: list[int] = []
        for i, (leaves, _) in enumerate(self.parts):
            for leaf in leaves:
                if i in self.chosen:
                    # The first buffer of a sparse array holds the values.
                    self.argnums.append(len(self.buffers))
                self.buffers += tree_leaves(leaf)
        self.tree = tree_structure(args)

    def call(self, *buffers: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.fun(*tree_unflatten(self.tree, buffers), **kwargs)

    def gathered(self, found: Sequence[Any]) -> Any:
        """Return derivatives with respect to the chosen arguments, in their structure."""
        derivatives = iter(found)
        out = []
        for i in sorted(self.chosen):
            leaves, tree = self.parts[i]
            out.append(tree_unflatten(tree, [_like(leaf, next(derivatives)) for leaf in leaves]))
        return out[0] if len(out) == 1 else tuple(out)


def _like(leaf: Any, derivative: Any) -> Any:
    buffers, tree = tree_flatten(leaf)

    def rebuilt(values: Any) -> Any:
        return tree_unflatten(tree, [values, *buffers[1:]])

    for _ in range(derivative.ndim - getattr(buffers[0], "ndim", 0)):
        rebuilt = vmap(rebuilt)
    return rebuilt(derivative)


def _aware(
    transform: Callable[..., Any],
    fun: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    options: dict[str, Any],
    with_value: bool = False,
) -> Callable[..., Any]:
    @wraps(fun)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        flat = _Flat(fun, argnums, args)
        numbers = tuple(flat.argnums)
        call = transform(flat.call, argnums=numbers, has_aux=has_aux, **options)
        out = call(*flat.buffers, **kwargs)
        if with_value:
            return out[0], flat.gathered(out[1])
        return (flat.gathered(out[0]), out[1]) if has_aux else flat.gathered(out)

    return derivative


def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return a function of the value and the gradient; see `grad`.

    `argnums` are the positions of the arguments, dense or sparse, to differentiate by; with
    `has_aux` the function returns a pair, whose second part is returned as it is. Keyword arguments
    are those of the dense transformation.
    """
    return _aware(dense.value_and_grad, fun, argnums, has_aux, kwargs, with_value=True)


def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return the gradient function; gradients of sparse arrays are sparse, with equal indices.

    Example:
        >>> x = sparse.BCOO.fromdense(jnp.arange(6.0))
        >>> sparse.grad(lambda x, y: x @ y)(x, jnp.ones(6))
        BCOO(float32[6], nse=5)
    """
    return _aware(dense.grad, fun, argnums, has_aux, kwargs)


def jacfwd(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return the Jacobian of a function with one dense result, by forward mode.

    `argnums` are the positions of the arguments, dense or sparse, to differentiate by; with
    `has_aux` the function returns a pair, whose second part is returned as it is. Keyword arguments
    are those of the dense transformation.
    """
    return _aware(dense_jacobian.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return the Jacobian of a function with one dense result, by reverse mode.

    `argnums` are the positions of the arguments, dense or sparse, to differentiate by; with
    `has_aux` the function returns a pair, whose second part is returned as it is. Keyword arguments
    are those of the dense transformation.
    """
    return _aware(dense_jacobian.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
