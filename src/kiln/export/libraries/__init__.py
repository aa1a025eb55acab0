"""Functions as libraries for C: see README.md."""
