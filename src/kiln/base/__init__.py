"""The floor: dtypes, pytrees, options, errors. Knows only Python and NumPy."""
