"""Functions of each element: arithmetic, comparisons, bits, elementary functions."""
