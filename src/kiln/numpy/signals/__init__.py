"""Samples of functions: convolution, windows, differences, interpolation."""
