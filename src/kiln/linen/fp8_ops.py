"""Products of matrices quantized to eight-bit floats, with scales that follow recent maxima.

An operand is divided by its scale, clipped and rounded to an eight-bit type. The next scale is the
largest magnitude in a history of the operand's maxima, divided by the largest number of the type.
Scales and histories are variables of the collection `OVERWRITE_WITH_GRADIENT`: their "gradients"
are their next values. The products themselves are computed in the type that results have, in which
eight-bit floats are exact.

Source: Micikevicius et al., FP8 Formats for Deep Learning (2022); the documentation of
`flax.linen.fp8_ops`.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.api.derivatives.linear import vjp
from kiln.control.custom_rules.vjp import custom_vjp
from kiln.linen.module import Module

OVERWRITE_WITH_GRADIENT = "_overwrite_with_gradient"
"""The collection whose gradients are its next values."""

CAN_USE_EARRAY = False
"""Whether there are arrays of types that extend others, outside of programs: there are none."""


def get_fp8_max(fp8_dtype: Any, out_dtype: Any) -> Any:
    """Return the largest finite number of an eight-bit float type, in another type.

    `fp8_dtype` is the eight-bit type, `out_dtype` that of the result, a NumPy scalar array.
    """
    return np.asarray(jnp.finfo(fp8_dtype).max).astype(out_dtype)


def quantize(x: Any, q_dtype: Any, scale: Any, compute_dtype: Any) -> Any:
    """Return x / scale, clipped and rounded to an eight-bit type.

    `q_dtype` is the eight-bit type, whose range is not exceeded; `compute_dtype` is the type of the
    quotient.
    """
    largest = get_fp8_max(q_dtype, compute_dtype)
    scaled = x / jnp.broadcast_to(scale.astype(compute_dtype), x.shape)
    return jnp.clip(scaled, -largest, largest).astype(q_dtype)


def dequantize(x: Any, dq_dtype: Any, scale: Any) -> Any:
    """Return x * scale in a wider type.

    Shapes: `scale` broadcasts to x. `dq_dtype` is the type of the result.
    """
    return x.astype(dq_dtype) * jnp.broadcast_to(scale.astype(dq_dtype), x.shape)


def qdq(x: Any, q_dtype: Any, scale: Any, compute_dtype: Any) -> Any:
    """Round to what an eight-bit type can represent at this scale.

    `q_dtype` is the eight-bit type, `compute_dtype` that in which x is scaled. The result has the
    type of x.
    """
    return dequantize(quantize(x, q_dtype, scale, compute_dtype), x.dtype, scale)


def compute_scale(amax: Any, scale: Any, fp8_max: Any, margin: int = 0) -> Any:
    """Return the scale that maps `amax` to `fp8_max`; the old one if amax is 0 or not finite.

    It is larger by 2**margin, so that larger operands still fit.
    """
    wanted = (fp8_max / amax) / 2**margin
    usable = (amax > 0.0) & jnp.isfinite(amax)
    return 1.0 / jnp.where(usable, wanted, 1.0 / scale)


def compute_amax_history(x: Any, amax_history: Any) -> Any:
    """Return the history with the largest magnitude of x in front, and its oldest entry dropped.

    Shapes: `amax_history` (n,), oldest entry at position 1 -> (n,).
    """
    largest = jnp.max(jnp.abs(x)).astype(amax_history.dtype)
    return jnp.roll(amax_history, shift=-1, axis=0).at[0].set(largest)


def update_fp8_meta(x: Any, q_dtype: Any, scale: Any, amax_history: Any) -> tuple[Any, Any]:
    """Return the scale for x, by the history of earlier operands, and the history with x.

    `q_dtype` is the eight-bit type; `amax_history` has the largest magnitudes of earlier operands,
    and its largest entry determines the scale.
    """
    largest = get_fp8_max(q_dtype, np.float32)
    scale = compute_scale(jnp.max(amax_history, axis=0), scale, largest)
    return scale, compute_amax_history(x, amax_history)


def quantize_dequantize_update(
    x: Any, q_dtype: Any, scale: Any, amax_history: Any, compute_dtype: Any
) -> tuple[Any, Any, Any]:
    """Return x rounded at its new scale, the scale, and the new history.

    The arguments are those of `qdq` and `update_fp8_meta`: the eight-bit type `q_dtype`, the type
    of the computation `compute_dtype`, and the largest magnitudes of earlier operands,
    `amax_history`.
    """
    scale, amax_history = update_fp8_meta(x, q_dtype, scale, amax_history)
    return qdq(x, q_dtype, scale, compute_dtype), scale, amax_history


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def in_qdq(compute_dtype: Any, q_dtype: Any, inp: Any, scale: Any, amax_history: Any) -> Any:
    """Round an operand; the gradients of scale and history are their next values.

    `inp` is rounded to what `q_dtype` represents at the scale that follows from `amax_history`;
    `compute_dtype` is the type of the computation.
    """
    return quantize_dequantize_update(inp, q_dtype, scale, amax_history, compute_dtype)[0]


def _in_qdq_forward(
    compute_dtype: Any, q_dtype: Any, inp: Any, scale: Any, amax_history: Any
) -> tuple[Any, Any]:
    rounded, *following = quantize_dequantize_update(
        inp, q_dtype, scale, amax_history, compute_dtype
    )
    return rounded, tuple(following)


def _in_qdq_backward(compute_dtype: Any, q_dtype: Any, following: Any, g: Any) -> Any:
    return g, *following


in_qdq.defvjp(_in_qdq_forward, _in_qdq_backward)


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def out_qdq(compute_dtype: Any, q_dtype: Any, out: Any, scale: Any, amax_history: Any) -> Any:
    """Return a result unchanged; its cotangent is rounded, with the scale and history given.

    The cotangent of `out` is rounded to what `q_dtype` represents at the scale that follows from
    `amax_history`; `compute_dtype` is the type of the computation.
    """
    return out


def _out_qdq_forward(
    compute_dtype: Any, q_dtype: Any, out: Any, scale: Any, amax_history: Any
) -> tuple[Any, Any]:
    return out, (scale, amax_history)


def _out_qdq_backward(compute_dtype: Any, q_dtype: Any, saved: Any, g: Any) -> Any:
    scale, amax_history = saved
    return quantize_dequantize_update(g, q_dtype, scale, amax_history, compute_dtype)


out_qdq.defvjp(_out_qdq_forward, _out_qdq_backward)


def _product(x: Any, y: Any, dimension_numbers: Any, dtype: Any) -> Any:
    return lax.dot_general(
        x.astype(dtype), y.astype(dtype), dimension_numbers, preferred_element_type=dtype
    )


@functools.partial(custom_vjp, nondiff_argnums=(8, 9, 10))
def _scaled_product(
    lhs: Any,
    rhs: Any,
    lhs_scale: Any,
    rhs_scale: Any,
    grad_scale: Any,
    lhs_history: Any,
    rhs_history: Any,
    grad_history: Any,
    dimension_numbers: Any,
    preferred: Any,
    compute_dtype: Any,
) -> Any:
    given = (lhs, rhs, lhs_scale, rhs_scale, grad_scale, lhs_history, rhs_history, grad_history)
    return _scaled_forward(*given, dimension_numbers, preferred, compute_dtype)[0]


def _scaled_forward(
    lhs: Any,
    rhs: Any,
    lhs_scale: Any,
    rhs_scale: Any,
    grad_scale: Any,
    lhs_history: Any,
    rhs_history: Any,
    grad_history: Any,
    dimension_numbers: Any,
    preferred: Any,
    compute_dtype: Any,
) -> tuple[Any, Any]:
    lhs_meta = update_fp8_meta(lhs, jnp.float8_e4m3fn, lhs_scale, lhs_history)
    rhs_meta = update_fp8_meta(rhs, jnp.float8_e4m3fn, rhs_scale, rhs_history)
    q_lhs = quantize(lhs, jnp.float8_e4m3fn, lhs_meta[0], compute_dtype)
    q_rhs = quantize(rhs, jnp.float8_e4m3fn, rhs_meta[0], compute_dtype)
    dtype = np.result_type(lhs.dtype) if preferred is None else preferred
    product = _product(q_lhs, q_rhs, dimension_numbers, dtype)
    out = dequantize(product, dtype, lhs_meta[0] * rhs_meta[0])
    return out, (q_lhs, q_rhs, lhs_meta, rhs_meta, grad_scale, grad_history)


def _scaled_backward(
    dimension_numbers: Any, preferred: Any, compute_dtype: Any, saved: Any, g: Any
) -> Any:
    q_lhs, q_rhs, lhs_meta, rhs_meta, grad_scale, grad_history = saved
    scale, history = update_fp8_meta(g, jnp.float8_e5m2, grad_scale, grad_history)
    q_g = quantize(g, jnp.float8_e5m2, scale, compute_dtype)
    dtype = g.dtype

    def of_operands(x: Any, y: Any) -> Any:
        return _product(x, y, dimension_numbers, dtype)

    _, pull = vjp(of_operands, q_lhs.astype(dtype), q_rhs.astype(dtype))
    lhs_bar, rhs_bar = pull(q_g.astype(dtype))
    return (
        dequantize(lhs_bar, dtype, rhs_meta[0] * scale),
        dequantize(rhs_bar, dtype, lhs_meta[0] * scale),
        lhs_meta[0],
        rhs_meta[0],
        scale,
        lhs_meta[1],
        rhs_meta[1],
        history,
    )


_scaled_product.defvjp(_scaled_forward, _scaled_backward)


def fp8_scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    lhs_scale: Any,
    rhs_scale: Any,
    grad_scale: Any,
    lhs_amax_history: Any,
    rhs_amax_history: Any,
    grad_amax_history: Any,
    quantize_compute_type: Any = np.float32,
) -> Any:
    """Return the product of operands quantized to float8_e4m3fn.

    The cotangent is quantized to float8_e5m2. The gradients of scales and histories are their next
    values.
    """
    if precision is not None:
        warnings.warn(
            "fp8_scaled_dot_general chooses its own precision and disregards the one given",
            stacklevel=2,
        )
    return _scaled_product(
        lhs,
        rhs,
        lhs_scale,
        rhs_scale,
        grad_scale,
        lhs_amax_history,
        rhs_amax_history,
        grad_amax_history,
        dimension_numbers,
        preferred_element_type,
        quantize_compute_type,
    )


def dot_general_with_precision(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the product of two operands, at a precision of its own choice.

    Shapes: `lhs` and `rhs` as `dimension_numbers` say, as for `lax.dot_general`. A warning says
        that `precision` or `preferred_element_type` is given, and has no effect.
    """
    if precision is not None or preferred_element_type is not None:
        warnings.warn(
            "dot_general_with_precision chooses precision and preferred_element_type itself and "
            "disregards those given",
            stacklevel=2,
        )
    return lax.dot_general(lhs, rhs, dimension_numbers)


class Fp8DotGeneralBase(Module):
    """The scales and histories of two operands and of the cotangent of their product."""

    amax_history_length: int = 1024
    e4m3_dtype: Any = jnp.float8_e4m3fn
    e5m2_dtype: Any = jnp.float8_e5m2

    def setup(self) -> None:
        """Create scales of 1, and histories of zeros."""
        for operand in ("input", "kernel", "output_grad"):
            scale, history = f"{operand}_scale", f"{operand}_amax_history"
            length = self.amax_history_length
            made = self.variable(OVERWRITE_WITH_GRADIENT, history, jnp.zeros, (length,), np.float32)
            setattr(self, history, made)
            made = self.variable(OVERWRITE_WITH_GRADIENT, scale, jnp.ones, (1,), np.float32)
            setattr(self, scale, made)

    def _meta(self) -> dict[str, Any]:
        return {
            "lhs_scale": self.input_scale.value,
            "rhs_scale": self.kernel_scale.value,
            "grad_scale": self.output_grad_scale.value,
            "lhs_amax_history": self.input_amax_history.value,
            "rhs_amax_history": self.kernel_amax_history.value,
            "grad_amax_history": self.output_grad_amax_history.value,
        }


class Fp8DotGeneralOp(Fp8DotGeneralBase):
    """A `dot_general` for layers that rounds operands, and multiplies them in their own type.

    Deprecated in Flax in favor of `Fp8DirectDotGeneralOp`.

    Example:
        >>> layer = linen.Dense(4, dot_general_cls=linen.Fp8DotGeneralOp)
        >>> variables = layer.init(random.key(0), jnp.ones((2, 8)))
        >>> sorted(variables)
        ['_overwrite_with_gradient', 'params']
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self) is Fp8DotGeneralOp:
            warnings.warn(
                "The Fp8DotGeneralOp is deprecated. Use Fp8DirectDotGeneralOp or Fp8Einsum "
                "instead.",
                DeprecationWarning,
                stacklevel=3,
            )

    def __call__(self, lhs: Any, rhs: Any, dimension_numbers: Any, **options: Any) -> Any:
        """Return the product in the type of `rhs`."""
        dtype = rhs.dtype
        lhs = jnp.asarray(lhs, dtype)
        meta = self._meta()
        lhs = in_qdq(dtype, self.e4m3_dtype, lhs, meta["lhs_scale"], meta["lhs_amax_history"])
        rhs = in_qdq(dtype, self.e4m3_dtype, rhs, meta["rhs_scale"], meta["rhs_amax_history"])
        out = dot_general_with_precision(lhs, rhs, dimension_numbers)
        scale, history = meta["grad_scale"], meta["grad_amax_history"]
        return out_qdq(dtype, self.e5m2_dtype, out, scale, history)


class Fp8DirectDotGeneralOp(Fp8DotGeneralBase):
    """A `dot_general` for layers that multiplies quantized operands, and scales the product.

    Example:
        >>> layer = linen.Dense(4, dot_general_cls=linen.Fp8DirectDotGeneralOp)
        >>> layer.init_with_output(random.key(0), jnp.ones((2, 8)))[0].shape
        (2, 4)
    """

    def __call__(self, lhs: Any, rhs: Any, dimension_numbers: Any, **options: Any) -> Any:
        """Return the product in the type of `rhs`."""
        dtype = rhs.dtype
        return fp8_scaled_dot_general(
            jnp.asarray(lhs, dtype),
            rhs,
            dimension_numbers,
            preferred_element_type=dtype,
            quantize_compute_type=dtype,
            **self._meta(),
        )


Fp8DotGeneral = Fp8DirectDotGeneralOp


class NANOOFp8DotGeneralOp(Fp8DotGeneralOp):
    """As `Fp8DotGeneralOp`, with the eight-bit types that have one nan and no negative zero.

    Example:
        >>> layer = linen.Dense(4, dot_general_cls=linen.NANOOFp8DotGeneralOp)
        >>> layer.init_with_output(random.key(0), jnp.ones((2, 8)))[0].shape
        (2, 4)
    """

    e4m3_dtype: Any = jnp.float8_e4m3fnuz
    e5m2_dtype: Any = jnp.float8_e5m2fnuz


class Fp8Einsum(Fp8DotGeneralBase):
    """An `einsum` of two operands that are quantized.

    Example:
        >>> layer = linen.Fp8Einsum()
        >>> x, y = jnp.ones((2, 3)), jnp.ones((3, 4))
        >>> layer.init_with_output(random.key(0), "ij,jk->ik", x, y)[0].shape
        (2, 4)
    """

    def __call__(
        self,
        eqn: str,
        lhs: Any,
        rhs: Any,
        precision: Any = None,
        preferred_element_type: Any = None,
    ) -> Any:
        """Return the contraction, computed in the type of `rhs`."""
        dtype = rhs.dtype
        product = functools.partial(
            fp8_scaled_dot_general, quantize_compute_type=dtype, **self._meta()
        )
        return jnp.einsum(
            eqn,
            lhs.astype(dtype),
            rhs,
            precision=precision,
            preferred_element_type=preferred_element_type,
            _dot_general=product,
        )
