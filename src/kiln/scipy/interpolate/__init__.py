"""Interpolation, by the names of `scipy.interpolate`."""

from kiln.scipy.interpolate.grid import RegularGridInterpolator as RegularGridInterpolator
