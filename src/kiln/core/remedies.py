"""What to write instead of an operation whose result is not finite."""

from __future__ import annotations

REMEDIES = {
    "log": "take the logarithm of what is positive: jnp.log(jnp.where(x > 0, x, 1))",
    "log1p": "take log1p of what is greater than -1: jnp.log1p(jnp.where(x > -1, x, 0))",
    "sqrt": "take the root of what is positive: jnp.sqrt(jnp.where(x > 0, x, 1))",
    "rsqrt": "take the root of what is positive: lax.rsqrt(jnp.where(x > 0, x, 1))",
    "div": "divide by what is not 0: x / jnp.where(y == 0, 1, y)",
    "rem": "divide by what is not 0: x % jnp.where(y == 0, 1, y)",
    "pow": "raise what is positive: jnp.where(x > 0, x, 1) ** y",
    "acos": "keep the operand between -1 and 1: jnp.clip(x, -1, 1)",
    "asin": "keep the operand between -1 and 1: jnp.clip(x, -1, 1)",
    "exp": "bound the operand, or subtract its maximum first",
}
"""By the name of the primitive."""
