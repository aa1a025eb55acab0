"""Functions as portable programs: exported, serialized, and loaded by kiln or JAX."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.export.exported import DisabledSafetyCheck as DisabledSafetyCheck
from kiln.export.exported import Exported as Exported
from kiln.export.exported import deserialize as deserialize
from kiln.export.exported import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
)
from kiln.export.exported import (
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from kiln.export.exporting import default_export_platform as default_export_platform
from kiln.export.exporting import export as export
from kiln.export.libraries.library import Library as Library
from kiln.export.libraries.library import library as library
from kiln.export.node_classes import (
    register_namedtuple_serialization as register_namedtuple_serialization,
)
from kiln.export.node_classes import (
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from kiln.export.symbolic import SymbolicScope as SymbolicScope
from kiln.export.symbolic import is_symbolic_dim as is_symbolic_dim
from kiln.export.symbolic import symbolic_args_specs as symbolic_args_specs
from kiln.export.symbolic import symbolic_shape as symbolic_shape

_suggest_names(globals())
