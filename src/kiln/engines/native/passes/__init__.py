"""Passes over loops, in the order in which the compiler runs them."""
