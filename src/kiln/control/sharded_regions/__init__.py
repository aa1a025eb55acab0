"""One program per device, on the shards of arrays."""
