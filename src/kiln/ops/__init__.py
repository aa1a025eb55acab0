"""The first-order primitives, one family per file, each with its rules.

Users find segment reductions here, as in `jax.ops`. They are defined in a higher layer and loaded
on first use.
"""

from kiln.base.lazy import names_on_first_use as _names_on_first_use

__getattr__, __dir__ = _names_on_first_use(
    __name__,
    "kiln.numpy.reductions.segments",
    "segment_max",
    "segment_min",
    "segment_prod",
    "segment_sum",
)
