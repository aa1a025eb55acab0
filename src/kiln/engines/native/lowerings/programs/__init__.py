"""What primitives that hold programs become in loops."""
