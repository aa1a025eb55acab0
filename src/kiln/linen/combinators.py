"""Modules in sequence, and functions over several leading axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.linen.module import Module
from kiln.linen.module.methods import compact
from kiln.linen.module.refusal import refused
from kiln.tree import leaves as tree_leaves
from kiln.tree import map as tree_map


class Sequential(Module):
    """Call layers in sequence, each with the result of the previous one.

    A tuple becomes the positional arguments of the next layer, a dict its keyword arguments.

    Example:
        >>> model = linen.Sequential([linen.Dense(8), linen.relu, linen.Dense(2)])
        >>> y, _ = model.init_with_output(random.key(0), jnp.ones((3, 4)))
        >>> y.shape
        (3, 2)
    """

    layers: Sequence[Callable[..., Any]]

    def __post_init__(self) -> None:
        if not isinstance(self.layers, Sequence):
            raise refused(
                self,
                f"layers={self.layers!r:.60}",
                f"'layers' must be a sequence, got '{type(self.layers).__name__}'.",
                "put the layers into a list: Sequential([...])",
            )
        super().__post_init__()

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the last layer returns."""
        if not self.layers:
            raise refused(
                self,
                "layers=()",
                f"Empty Sequential module {self.name}.",
                "give it one layer at least",
            )
        first, *rest = self.layers
        out = first(*args, **kwargs)
        for layer in rest:
            if isinstance(out, tuple):
                out = layer(*out)
            elif isinstance(out, dict):
                out = layer(**out)
            else:
                out = layer(out)
        return out


class BatchApply:
    """Call a function that expects one leading batch axis on arrays that have several.

    Example:
        >>> per_batch = linen.BatchApply(lambda x: x @ jnp.ones((3, 2)))
        >>> per_batch(jnp.ones((4, 5, 3))).shape
        (4, 5, 2)
    """

    def __init__(self, f: Callable[..., Any], num_dims: int = 2) -> None:
        self._f = f
        self.num_dims = num_dims

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on merged leading axes, and split these axes in its result.

        Arguments with fewer axes are passed unchanged.
        Raises: ValueError if no argument has `num_dims` axes.
        """
        count = self.num_dims
        example = next((x for x in tree_leaves((args, kwargs)) if jnp.ndim(x) >= count), None)
        if example is None:
            raise ValueError(
                three_lines(
                    f"BatchApply(num_dims={count}) at {current_source()}",
                    f"BatchApply requires at least one input with ndim >= {count}.",
                    "give an array with these axes, or a smaller num_dims",
                )
            )
        leading = tuple(jnp.shape(example)[:count])

        def merged(x: Any) -> Any:
            shape = tuple(jnp.shape(x))
            if len(shape) < count:
                return x
            return jnp.reshape(x, (math.prod(shape[:count]), *shape[count:]))

        def split(x: Any) -> Any:
            return jnp.reshape(
                x, leading + tuple(np.shape(x) if not hasattr(x, "shape") else x.shape)[1:]
            )

        args, kwargs = tree_map(merged, (args, kwargs))
        return tree_map(split, self._f(*args, **kwargs))
