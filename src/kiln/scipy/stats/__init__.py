"""Distributions, by the names of `scipy.stats`; modules load on first use."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use

if _TYPE_CHECKING:
    from kiln.scipy.stats import norm as norm

__getattr__, __dir__ = _on_first_use(globals(), "norm")
