"""The first-order primitives, one family to a file, each with its rules.

Users find functions over segments here, as under `jax.ops`. They stand above, and come when asked
for.
"""

from kiln.base.lazy import names_on_first_use as _names_on_first_use

__getattr__, __dir__ = _names_on_first_use(
    __name__,
    "kiln.numpy.segments",
    "segment_max",
    "segment_min",
    "segment_prod",
    "segment_sum",
)
