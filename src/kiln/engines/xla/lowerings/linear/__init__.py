"""Lowerings of products of matrices, and of what is made of them."""
