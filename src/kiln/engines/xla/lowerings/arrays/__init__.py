"""Lowerings of what makes arrays, and reads or writes parts of them."""
