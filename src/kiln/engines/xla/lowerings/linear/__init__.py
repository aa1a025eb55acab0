"""Lowerings of matrix products, convolutions and factorizations."""
