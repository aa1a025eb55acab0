"""Times kiln beside JAX: `python -m benchmarks`."""
