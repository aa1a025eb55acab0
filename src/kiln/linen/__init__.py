"""The public `kiln.linen`: modules with named, nested variables, and transformations of them."""

from __future__ import annotations

from kiln.linen import errors as errors
from kiln.linen import frozen_dict as frozen_dict
from kiln.linen import metadata as meta
from kiln.linen.application import apply, init, init_with_output
from kiln.linen.context import (
    disable_named_call,
    enable_named_call,
    intercept_methods,
    override_named_call,
)
from kiln.linen.filters import DenyList
from kiln.linen.frozen_dict import FrozenDict, freeze, unfreeze
from kiln.linen.metadata import (
    PARTITION_NAME,
    Partitioned,
    get_partition_spec,
    get_sharding,
    unbox,
    with_partitioning,
)
from kiln.linen.methods import compact, compact_name_scope, nowrap
from kiln.linen.module import Module, share_scope
from kiln.linen.scope import Variable
from kiln.linen.variables import merge_param
