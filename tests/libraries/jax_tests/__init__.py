"""JAX's own tests, unmodified, on kiln: `python -m tests.libraries.jax_tests --help`."""
