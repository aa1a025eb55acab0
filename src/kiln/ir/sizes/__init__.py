"""Sizes of axes: ints, and expressions over named axes."""
