"""Spatial transformations, by the names of `scipy.spatial`."""

from kiln.scipy.spatial import transform as transform
