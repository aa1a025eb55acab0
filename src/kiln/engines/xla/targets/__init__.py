"""Machines that are described, not here: their compilers, and executables for them."""
