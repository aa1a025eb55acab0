"""What products of matrices, and what is made of them, become in loops and kernels."""
