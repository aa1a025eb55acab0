"""Times kiln beside JAX: `python -m benchmarks`."""

import os

# Before kiln reads its options: what is compiled is to be compiled, and not found on disk.
os.environ.setdefault("KILN_CACHE_DIR", "")
