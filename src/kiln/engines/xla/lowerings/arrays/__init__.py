"""Lowerings that create arrays, or read or write parts of them."""
