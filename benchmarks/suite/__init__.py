"""Times kiln beside JAX, torch, NumPy/SciPy and numba: `python -m benchmarks.suite`."""
