"""What the elementwise functions of `kiln.lax` do, and an example of each.

The functions are made of primitives (`families.py`), so that their docstrings are data.
"""

from __future__ import annotations

SUMMARIES: dict[str, tuple[str, ...]] = {
    "abs": (
        "Return the absolute value; for complex numbers, the modulus, a real number.",
        ">>> lax.abs(jnp.array([-2, 3]))",
        "Array([2, 3], dtype=int32)",
    ),
    "acos": (
        "Return the inverse cosine; nan outside [-1, 1].",
        ">>> lax.acos(jnp.array([1.0, 0.0]))",
        "Array([0.       , 1.5707964], dtype=float32)",
    ),
    "acosh": (
        "Return the inverse hyperbolic cosine; nan below 1.",
        ">>> lax.acosh(jnp.array([1.0, 2.0]))",
        "Array([0.      , 1.316958], dtype=float32)",
    ),
    "add": (
        "Add two arrays of one dtype; a scalar is combined with every element.",
        ">>> lax.add(jnp.array([1.0, 2.0]), 1)",
        "Array([2., 3.], dtype=float32)",
    ),
    "asin": (
        "Return the inverse sine; nan outside [-1, 1].",
        ">>> lax.asin(jnp.array([0.0, 1.0]))",
        "Array([0.       , 1.5707964], dtype=float32)",
    ),
    "asinh": (
        "Return the inverse hyperbolic sine.",
        ">>> lax.asinh(jnp.array([0.0, 1.0]))",
        "Array([0.       , 0.8813736], dtype=float32)",
    ),
    "atan": (
        "Return the inverse tangent.",
        ">>> lax.atan(jnp.array([0.0, 1.0]))",
        "Array([0.       , 0.7853982], dtype=float32)",
    ),
    "atan2": (
        "Return the angle of the point with the ordinate x and the abscissa y.",
        ">>> lax.atan2(jnp.array([1.0, -1.0]), 0.0)",
        "Array([ 1.5707964, -1.5707964], dtype=float32)",
    ),
    "atanh": (
        "Return the inverse hyperbolic tangent; nan outside [-1, 1].",
        ">>> lax.atanh(jnp.array([0.0, 0.5]))",
        "Array([0.        , 0.54930615], dtype=float32)",
    ),
    "bessel_i0e": (
        "Return exp(-abs(x)) times the modified Bessel function of order 0.",
        ">>> lax.bessel_i0e(jnp.array([0.0, 100.0]))",
        "Array([1.        , 0.03994438], dtype=float32)",
    ),
    "bessel_i1e": (
        "Return exp(-abs(x)) times the modified Bessel function of order 1.",
        ">>> lax.bessel_i1e(jnp.array([0.0, 100.0]))",
        "Array([0.        , 0.03974415], dtype=float32)",
    ),
    "bitwise_and": (
        "Return the bitwise and of integers, or the logical one of bools.",
        ">>> lax.bitwise_and(jnp.array([12, 7]), 10)",
        "Array([8, 2], dtype=int32)",
    ),
    "bitwise_not": (
        "Invert all bits of integers; negate bools.",
        ">>> lax.bitwise_not(jnp.array([0, 5]))",
        "Array([-1, -6], dtype=int32)",
    ),
    "bitwise_or": (
        "Return the bitwise or of integers, or the logical one of bools.",
        ">>> lax.bitwise_or(jnp.array([12, 7]), 1)",
        "Array([13,  7], dtype=int32)",
    ),
    "bitwise_xor": (
        "Return the bitwise exclusive or of integers, or the logical one of bools.",
        ">>> lax.bitwise_xor(jnp.array([12, 7]), 10)",
        "Array([ 6, 13], dtype=int32)",
    ),
    "cbrt": (
        "Return the cube root, negative for negative numbers.",
        ">>> lax.cbrt(jnp.array([8.0, -1.0]))",
        "Array([ 2., -1.], dtype=float32)",
    ),
    "ceil": (
        "Round towards plus infinity.",
        ">>> lax.ceil(jnp.array([-1.5, 1.2]))",
        "Array([-1.,  2.], dtype=float32)",
    ),
    "clz": (
        "Count the leading zero bits of integers.",
        ">>> lax.clz(jnp.array([1, 16, 0]))",
        "Array([31, 27, 32], dtype=int32)",
    ),
    "complex": (
        "Return complex numbers of given real and imaginary parts.",
        ">>> lax.complex(jnp.array([1.0]), jnp.array([2.0]))",
        "Array([1.+2.j], dtype=complex64)",
    ),
    "cos": (
        "Return the cosine.",
        ">>> lax.cos(jnp.array([0.0, 1.0]))",
        "Array([1.       , 0.5403023], dtype=float32)",
    ),
    "cosh": (
        "Return the hyperbolic cosine.",
        ">>> lax.cosh(jnp.array([0.0, 1.0]))",
        "Array([1.       , 1.5430807], dtype=float32)",
    ),
    "digamma": (
        "Return the derivative of the logarithm of the gamma function.",
        ">>> lax.digamma(jnp.array([1.0, 2.0]))",
        "Array([-0.5772157 ,  0.42278433], dtype=float32)",
    ),
    "div": (
        "Divide; quotients of integers are rounded towards zero, where `jnp.divide` gives floats.",
        ">>> lax.div(jnp.array([7, -7]), 2)",
        "Array([ 3, -3], dtype=int32)",
    ),
    "eq": (
        "Tell which elements are equal.",
        ">>> lax.eq(jnp.array([1, 2]), jnp.array([1, 3]))",
        "Array([ True, False], dtype=bool)",
    ),
    "erf": (
        "Return the error function.",
        ">>> lax.erf(jnp.array([0.0, 1.0]))",
        "Array([0.       , 0.8427008], dtype=float32)",
    ),
    "erf_inv": (
        "Return the inverse of the error function; infinite at -1 and 1.",
        ">>> lax.erf_inv(jnp.array([0.0, 0.5]))",
        "Array([0.        , 0.47693628], dtype=float32)",
    ),
    "erfc": (
        "Return 1 - erf(x), with all its digits for large x.",
        ">>> lax.erfc(jnp.array([0.0, 5.0]))",
        "Array([1.0000000e+00, 1.5374598e-12], dtype=float32)",
    ),
    "exp": (
        "Return the exponential.",
        ">>> lax.exp(jnp.array([0.0, 1.0]))",
        "Array([1.      , 2.718282], dtype=float32)",
    ),
    "exp2": (
        "Return the power of two.",
        ">>> lax.exp2(jnp.array([3.0, -1.0]))",
        "Array([8. , 0.5], dtype=float32)",
    ),
    "expm1": (
        "Return exp(x) - 1, with all its digits near 0.",
        ">>> lax.expm1(jnp.array([0.0, 1e-8]))",
        "Array([0.e+00, 1.e-08], dtype=float32)",
    ),
    "floor": (
        "Round towards minus infinity.",
        ">>> lax.floor(jnp.array([-1.5, 1.2]))",
        "Array([-2.,  1.], dtype=float32)",
    ),
    "ge": (
        "Tell which elements of x are greater than, or equal to, those of y.",
        ">>> lax.ge(jnp.array([1, 2, 3]), 2)",
        "Array([False,  True,  True], dtype=bool)",
    ),
    "gt": (
        "Tell which elements of x are greater than those of y.",
        ">>> lax.gt(jnp.array([1, 2, 3]), 2)",
        "Array([False, False,  True], dtype=bool)",
    ),
    "igamma": (
        "Return the regularized lower incomplete gamma function of y; its parameter is x.",
        ">>> lax.igamma(jnp.array([1.0, 2.0]), 1.0)",
        "Array([0.63212055, 0.26424113], dtype=float32)",
    ),
    "igamma_grad_a": (
        "Return the derivative of `igamma` with respect to its parameter.",
        ">>> lax.igamma_grad_a(jnp.array([2.0]), 1.0)",
        "Array([-0.27619603], dtype=float32)",
    ),
    "igammac": (
        "Return the regularized upper incomplete gamma function, 1 - igamma(x, y).",
        ">>> lax.igammac(jnp.array([1.0, 2.0]), 1.0)",
        "Array([0.36787945, 0.7357589 ], dtype=float32)",
    ),
    "imag": (
        "Return the imaginary part of complex numbers.",
        ">>> lax.imag(jnp.array([1 + 2j]))",
        "Array([2.], dtype=float32)",
    ),
    "is_finite": (
        "Tell which elements are neither infinite nor nan.",
        ">>> lax.is_finite(jnp.array([1.0, jnp.inf, jnp.nan]))",
        "Array([ True, False, False], dtype=bool)",
    ),
    "le": (
        "Tell which elements of x are less than, or equal to, those of y.",
        ">>> lax.le(jnp.array([1, 2, 3]), 2)",
        "Array([ True,  True, False], dtype=bool)",
    ),
    "lgamma": (
        "Return the logarithm of the absolute value of the gamma function.",
        ">>> lax.lgamma(jnp.array([1.0, 5.0]))",
        "Array([0.       , 3.1780539], dtype=float32)",
    ),
    "log": (
        "Return the natural logarithm; nan below 0, and minus infinity at 0.",
        ">>> lax.log(jnp.array([1.0, 10.0, 0.0]))",
        "Array([0.       , 2.3025851,      -inf], dtype=float32)",
    ),
    "log1p": (
        "Return log(1 + x), with all its digits near 0.",
        ">>> lax.log1p(jnp.array([0.0, 1e-8]))",
        "Array([0.e+00, 1.e-08], dtype=float32)",
    ),
    "logistic": (
        "Return 1 / (1 + exp(-x)), the sigmoid.",
        ">>> lax.logistic(jnp.array([0.0, 100.0]))",
        "Array([0.5, 1. ], dtype=float32)",
    ),
    "lt": (
        "Tell which elements of x are less than those of y.",
        ">>> lax.lt(jnp.array([1, 2, 3]), 2)",
        "Array([ True, False, False], dtype=bool)",
    ),
    "max": (
        "Return the larger operand; nan if either is nan.",
        ">>> lax.max(jnp.array([1.0, jnp.nan]), 2.0)",
        "Array([ 2., nan], dtype=float32)",
    ),
    "min": (
        "Return the smaller operand; nan if either is nan.",
        ">>> lax.min(jnp.array([1.0, jnp.nan]), 2.0)",
        "Array([ 1., nan], dtype=float32)",
    ),
    "mulhi": (
        "Return the upper half of the bits of products of integers.",
        ">>> lax.mulhi(jnp.array([2**30, 3]), 8)",
        "Array([2, 0], dtype=int32)",
    ),
    "ne": (
        "Tell which elements differ; nan differs from itself.",
        ">>> lax.ne(jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]))",
        "Array([False,  True], dtype=bool)",
    ),
    "neg": ("Return -x.", ">>> lax.neg(jnp.array([1, -2]))", "Array([-1,  2], dtype=int32)"),
    "nextafter": (
        "Return the next floating-point number after x towards y.",
        ">>> lax.nextafter(jnp.array([1.0]), 2.0) - 1",
        "Array([1.1920929e-07], dtype=float32)",
    ),
    "polygamma": (
        "Return the x-th derivative of the digamma function at y; x is a float.",
        ">>> lax.polygamma(jnp.array([1.0]), 2.0)",
        "Array([0.64493406], dtype=float32)",
    ),
    "population_count": (
        "Count the 1 bits of integers.",
        ">>> lax.population_count(jnp.array([7, 8]))",
        "Array([3, 1], dtype=int32)",
    ),
    "random_gamma_grad": (
        "Return the derivative of the gamma variates y by their parameter x.",
        ">>> lax.random_gamma_grad(jnp.array([2.0]), 1.0).round(4)",
        "Array([0.7508], dtype=float32)",
    ),
    "real": (
        "Return the real part of complex numbers.",
        ">>> lax.real(jnp.array([1 + 2j]))",
        "Array([1.], dtype=float32)",
    ),
    "rem": (
        "Return the remainder of a division rounded towards zero, which has the sign of x.",
        ">>> lax.rem(jnp.array([7, -7]), 3)",
        "Array([ 1, -1], dtype=int32)",
    ),
    "rsqrt": (
        "Return 1 / sqrt(x).",
        ">>> lax.rsqrt(jnp.array([4.0, 0.0]))",
        "Array([0.5, inf], dtype=float32)",
    ),
    "shift_left": (
        "Shift bits to the left; 0 for shifts by the width of the type and more.",
        ">>> lax.shift_left(jnp.array([1, 1]), jnp.array([3, 40]))",
        "Array([8, 0], dtype=int32)",
    ),
    "shift_right_arithmetic": (
        "Shift bits to the right, repeating the sign.",
        ">>> lax.shift_right_arithmetic(jnp.array([8, -8]), 2)",
        "Array([ 2, -2], dtype=int32)",
    ),
    "shift_right_logical": (
        "Shift bits to the right, filling with zeros.",
        ">>> lax.shift_right_logical(jnp.array([8, -8]), 2)",
        "Array([         2, 1073741822], dtype=int32)",
    ),
    "sign": (
        "Return -1, 0 or 1; for complex numbers, x divided by its modulus.",
        ">>> lax.sign(jnp.array([-2.0, 0.0, 3.0]))",
        "Array([-1.,  0.,  1.], dtype=float32)",
    ),
    "sin": (
        "Return the sine.",
        ">>> lax.sin(jnp.array([0.0, 1.0]))",
        "Array([0.      , 0.841471], dtype=float32)",
    ),
    "sinh": (
        "Return the hyperbolic sine.",
        ">>> lax.sinh(jnp.array([0.0, 1.0]))",
        "Array([0.       , 1.1752012], dtype=float32)",
    ),
    "sqrt": (
        "Return the square root; nan for negative numbers.",
        ">>> lax.sqrt(jnp.array([4.0, -1.0]))",
        "Array([ 2., nan], dtype=float32)",
    ),
    "square": ("Return x * x.", ">>> lax.square(jnp.array([-2, 3]))", "Array([4, 9], dtype=int32)"),
    "sub": (
        "Subtract y from x.",
        ">>> lax.sub(jnp.array([3, 5]), 1)",
        "Array([2, 4], dtype=int32)",
    ),
    "tan": (
        "Return the tangent.",
        ">>> lax.tan(jnp.array([0.0, 1.0]))",
        "Array([0.       , 1.5574077], dtype=float32)",
    ),
    "tanh": (
        "Return the hyperbolic tangent.",
        ">>> lax.tanh(jnp.array([0.0, 1.0]))",
        "Array([0.       , 0.7615942], dtype=float32)",
    ),
    "zeta": (
        "Return the Hurwitz zeta function: the sum of (y + k) ** -x over k from 0 on.",
        ">>> lax.zeta(jnp.array([2.0]), 1.0)",
        "Array([1.644934], dtype=float32)",
    ),
}
"""By name: a summary, then the lines of an example."""
