"""Modules: dataclasses whose fields are hyper-parameters and whose methods use named variables."""

from __future__ import annotations

from kiln.linen.module.methods import compact as compact
from kiln.linen.module.module import UNSPECIFIED_PARENT as UNSPECIFIED_PARENT
from kiln.linen.module.module import CompactNameScope as CompactNameScope
from kiln.linen.module.module import Module as Module
from kiln.linen.module.module import ModuleState as ModuleState
from kiln.linen.module.module import SetupState as SetupState
from kiln.linen.module.module import share_scope as share_scope
from kiln.linen.scopes.variables import merge_param as merge_param
