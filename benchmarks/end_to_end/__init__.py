"""Programs of libraries for JAX from start to end, on JAX and on kiln."""
