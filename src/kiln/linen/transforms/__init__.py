"""Lifted transformations: functions of modules, transformed like functions of arrays."""

from __future__ import annotations

from kiln.linen.transforms.axes import scan as scan
from kiln.linen.transforms.shape_preserving import add_metadata_axis as add_metadata_axis
from kiln.linen.transforms.shape_preserving import checkpoint as checkpoint
from kiln.linen.transforms.shape_preserving import fold_rngs as fold_rngs
from kiln.linen.transforms.shape_preserving import map_variables as map_variables
from kiln.linen.transforms.shape_preserving import named_call as named_call
from kiln.linen.transforms.shape_preserving import remat as remat
from kiln.linen.transforms.shape_preserving import remat_scan as remat_scan
