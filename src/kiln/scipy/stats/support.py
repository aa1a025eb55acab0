"""Values inside and outside of the support of a distribution."""

from __future__ import annotations

import math
from typing import Any

from kiln import numpy as jnp


def inside(condition: Any, x: Any, value: Any, otherwise: float) -> Any:
    """Return `value` where the condition holds, nan where `x` is nan, else `otherwise`."""
    return jnp.where(condition, value, jnp.where(jnp.isnan(x), x, otherwise))


def positive(x: Any) -> Any:
    """Return parameters that have to be positive; nan for those that are not."""
    return jnp.where(x > 0, x, math.nan)


def whole_numbers(x: Any) -> Any:
    """Say which numbers are integers."""
    return x == jnp.floor(x)


def log_of_part(part: Any, rest: Any) -> Any:
    """Return log(part), where part + rest = 1: by the smaller of the two."""
    small = part < 0.5
    return jnp.where(small, jnp.log(part), jnp.log1p(-jnp.where(small, 0, rest)))
