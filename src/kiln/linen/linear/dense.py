"""Layers that contract axes of the input with a kernel: Dense, DenseGeneral, Einsum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import opt_einsum

from kiln import lax, quantize
from kiln import numpy as jnp
from kiln.linen.dtypes import promote_dtype
from kiln.linen.metadata import AxisMetadata
from kiln.linen.module import Module
from kiln.linen.module.methods import compact, nowrap
from kiln.linen.module.refusal import refused
from kiln.linen.scopes.variables import merge_param
from kiln.nn import initializers

default_kernel_init = initializers.lecun_normal()


def canonical_axes(module: Module, axes: Any, ndim: int, what: str = "axis") -> tuple[int, ...]:
    """Return axes counted from the front, in ascending order, as in the parameters.

    Raises: ValueError naming the module for an axis that the input does not have.
    """
    found = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    if any(not -ndim <= axis < ndim for axis in found):
        raise refused(
            module,
            f"{what}={axes} of an input with {ndim} axes",
            f"{what} {axes} is out of range for {ndim} axes",
            f"axes go from {-ndim} to {ndim - 1}" if ndim else "give the input an axis of features",
        )
    return tuple(sorted({int(axis) % ndim for axis in found}))


def product_of(module: Any) -> Callable[..., Any]:
    """Return the `dot_general` that a module uses."""
    if module.dot_general_cls is not None:
        return module.dot_general_cls()  # type: ignore[no-any-return]
    return lax.dot_general if module.dot_general is None else module.dot_general


def multiplied(module: Any, inputs: Any, kernel: Any, bias: Any, numbers: Any) -> tuple[Any, Any]:
    """Return the product of a module's inputs and its kernel, and its bias, in one dtype.

    `numbers` are the dimension numbers of the product. The module's `dtype`, `precision`,
    `dot_general` and `promote_dtype` say how it is computed. A quantized kernel is not converted
    first, unless the module has a `dot_general` or a `promote_dtype` of its own.
    """
    own = module.dot_general_cls is not None or module.dot_general is not None
    own = own or module.promote_dtype is not promote_dtype
    if isinstance(kernel, quantize.QuantizedArray) and not own:
        like = np.zeros((), kernel.dtype)
        inputs, bias, like = module.promote_dtype(inputs, bias, like, dtype=module.dtype)
        narrow = kernel.replace(dtype=like.dtype)
        return quantize.dot_general(inputs, narrow, numbers, module.precision), bias
    inputs, kernel, bias = module.promote_dtype(inputs, kernel, bias, dtype=module.dtype)
    return product_of(module)(inputs, kernel, numbers, precision=module.precision), bias


def parameters(
    module: Any,
    kernel_shape: tuple[Any, ...],
    bias_shape: tuple[Any, ...],
    kernel_init: Any = None,
    bias_init: Any = None,
) -> tuple[Any, Any]:
    """Return a module's kernel, and its bias if it uses one, else None.

    The shapes are `kernel_shape` and `bias_shape`; initializers are by default the module's own
    (`kernel_init`, `bias_init`), the type is its `param_dtype`.
    """
    dtype = module.param_dtype
    kernel = module.param("kernel", kernel_init or module.kernel_init, kernel_shape, dtype)
    if not module.use_bias:
        return kernel, None
    return kernel, module.param("bias", bias_init or module.bias_init, bias_shape, dtype)


class Dense(Module):
    """Multiply the last axis of the input by a kernel of shape (inputs, features), and add a bias.

    Shapes: (..., inputs) -> (..., features).
    Example:
        >>> layer = linen.Dense(4)
        >>> variables = layer.init(random.key(0), jnp.ones((2, 3)))
        >>> kiln.tree.map(jnp.shape, variables["params"])
        {'bias': (4,), 'kernel': (3, 4)}
        >>> layer.apply(variables, jnp.ones((2, 3))).shape
        (2, 4)
    """

    features: int
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32
    precision: Any = None
    kernel_init: Any = default_kernel_init
    bias_init: Any = initializers.zeros
    promote_dtype: Any = promote_dtype
    dot_general: Any = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Return inputs @ kernel + bias.

        Shapes: (..., inputs) -> (..., features).
        """
        shape = jnp.shape(inputs)
        canonical_axes(self, -1, len(shape))
        kernel, bias = parameters(self, (shape[-1], self.features), (self.features,))
        numbers = (((len(shape) - 1,), (0,)), ((), ()))
        out, bias = multiplied(self, inputs, kernel, bias, numbers)
        return out if bias is None else out + bias


class DenseGeneral(Module):
    """Multiply any axes of the input by a kernel, with a separate kernel for each batch index.

    Example:
        >>> layer = linen.DenseGeneral(features=(4, 5), axis=(-2, -1))
        >>> layer.init_with_output(random.key(0), jnp.ones((7, 2, 3)))[0].shape
        (7, 4, 5)
    """

    features: int | Sequence[int]
    axis: int | Sequence[int] = -1
    batch_dims: int | Sequence[int] = ()
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32
    kernel_init: Any = default_kernel_init
    bias_init: Any = initializers.zeros
    precision: Any = None
    promote_dtype: Any = promote_dtype
    dot_general: Any = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Return the product, plus a bias for each batch index and feature.

        Shapes: the result has the batch axes, then the other remaining axes, then `features`.
        """
        shape = jnp.shape(inputs)
        features = _tuple(self.features)
        batch = _tuple(self.batch_dims)
        if sorted(set(batch)) != list(range(len(batch))):
            raise refused(
                self,
                f"batch_dims={batch}",
                f"batch_dims {batch} must be consecutive leading dimensions starting from 0.",
                "move the batch axes of the input to the front",
            )
        axis = canonical_axes(self, self.axis, len(shape))
        canonical_axes(self, batch, len(shape), "batch_dims")
        if set(axis) & set(batch):
            raise refused(
                self,
                f"axis={axis}, batch_dims={batch}",
                "an axis cannot be both contracted and a batch axis",
                "name each axis once",
                TypeError,
            )
        batch_shape = tuple(shape[i] for i in batch)
        contracted = tuple(shape[i] for i in axis)

        def draw_kernel(key: Any, shape: Any, dtype: Any) -> Any:
            # Initializers count the inputs and outputs of a matrix.
            outputs = math.prod(shape[len(batch) + len(axis) :])
            matrix = (math.prod(shape[: len(batch) + len(axis)]), outputs)
            return _reshaped(self.kernel_init(key, matrix, dtype), shape)

        def draw_bias(key: Any, shape: Any, dtype: Any) -> Any:
            return _reshaped(self.bias_init(key, (math.prod(shape),), dtype), shape)

        kernel, bias = parameters(
            self,
            batch_shape + contracted + features,
            batch_shape + features,
            draw_kernel,
            draw_bias,
        )
        of_kernel = tuple(range(len(batch) + len(axis)))
        numbers = ((axis, of_kernel[len(batch) :]), (batch, of_kernel[: len(batch)]))
        out, bias = multiplied(self, inputs, kernel, bias, numbers)
        if bias is None:
            return out
        kept = len(shape) - len(axis) - len(batch)
        return out + jnp.reshape(bias, batch_shape + (1,) * kept + features)


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, (int, np.integer)) else tuple(value)


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any:
    """Reshape a parameter, inside its metadata box if it has one."""
    if isinstance(value, AxisMetadata):
        return value.replace_boxed(jnp.reshape(value.unbox(), shape))
    return jnp.reshape(value, shape)


class Einsum(Module):
    """Contract the input with a kernel by an einsum equation, and add a bias over kernel axes.

    Example:
        >>> layer = linen.Einsum((3, 4), "bi,io->bo")
        >>> layer.init_with_output(random.key(0), jnp.ones((2, 3)))[0].shape
        (2, 4)
    """

    shape: Sequence[int]
    einsum_str: str | None = None
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32
    precision: Any = None
    kernel_init: Any = default_kernel_init
    bias_init: Any = initializers.zeros
    promote_dtype: Any = promote_dtype
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any, einsum_str: str | None = None) -> Any:
        """Return einsum(equation, inputs, kernel) + bias.

        Raises: ValueError for an equation without `->` or not of two operands.
        """
        equation = merge_param("einsum_str", self.einsum_str, einsum_str).replace(" ", "")
        self._check(equation)
        kernel = self.param("kernel", self.kernel_init, tuple(self.shape), self.param_dtype)
        bias, seen = None, tuple[int, ...]()
        if self.use_bias:
            bias_shape, seen = self._bias_shapes(equation, jnp.shape(inputs))
            bias = self.param("bias", self.bias_init, bias_shape, self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        out = jnp.einsum(
            equation,
            inputs,
            kernel,
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
        )
        return out if bias is None else out + jnp.reshape(bias, seen)

    @nowrap
    def _check(self, equation: str) -> None:
        if "->" not in equation:
            raise refused(
                self,
                f"einsum_str={equation!r}",
                '`einsum_str` equation must be explicit and include "->".',
                "say which axes the result has, as in 'bij,jk->bik'",
            )
        if equation.count(",") != 1:
            raise refused(
                self,
                f"einsum_str={equation!r}",
                "`einsum_str` equation must have exactly two operands and therefore, exactly one "
                f"comma character, instead of {equation.count(',')}",
                "name the axes of the input, then those of the kernel, as in 'bij,jk->bik'",
            )

    @nowrap
    def _bias_shapes(self, equation: str, inputs: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shape of the bias, and that shape expanded to the axes of the result."""
        shape = tuple(self.shape)
        try:
            operands, result, _ = opt_einsum.parser.parse_einsum_input(
                (equation, tuple(inputs), shape), shapes=True
            )
        except ValueError as error:
            raise refused(
                self,
                f"einsum_str={equation!r} with an input of {tuple(inputs)}, a kernel of {shape}",
                str(error),
                "use each axis of the result once, and an axis's letter for nothing else",
            ) from None
        letters = operands.split(",")[1]
        sizes = dict(zip(letters, shape, strict=False))
        of_kernel = tuple(sizes[c] for c in result if c in sizes)
        return of_kernel, tuple(sizes.get(c, 1) for c in result)
