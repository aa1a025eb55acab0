"""The public `kiln.linen`: modules with named, nested variables, and transformations of them."""

from __future__ import annotations

from kiln.linen import errors as errors
from kiln.linen import frozen_dict as frozen_dict
from kiln.linen import metadata as meta
from kiln.linen.frozen_dict import FrozenDict, freeze, unfreeze
from kiln.linen.metadata import (
    PARTITION_NAME,
    Partitioned,
    get_partition_spec,
    get_sharding,
    unbox,
    with_partitioning,
)
