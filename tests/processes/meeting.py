"""A program that computes one number with all of its processes."""

from __future__ import annotations

import numpy as np

import kiln
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P


def main() -> None:
    """Meet the others, add up the ranks, and say so."""
    kiln.distributed.initialize(initialization_timeout=60)
    rows = NamedSharding(kiln.make_mesh((kiln.device_count(),), ("data",)), P("data"))
    mine = np.full((kiln.local_device_count(),), kiln.process_index(), np.float32)
    ranks = kiln.make_array_from_process_local_data(rows, mine)
    print("together", float(kiln.jit(lambda x: x.sum())(ranks)))


if __name__ == "__main__":
    main()
