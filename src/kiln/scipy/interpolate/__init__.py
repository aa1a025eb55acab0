"""Interpolation, by the names of `scipy.interpolate`."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.scipy.interpolate.grid import RegularGridInterpolator as RegularGridInterpolator

_suggest_names(globals())
