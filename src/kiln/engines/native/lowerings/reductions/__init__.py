"""What is computed along axes, in loops and kernels."""
