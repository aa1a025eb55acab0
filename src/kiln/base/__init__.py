"""The bottom layer: dtypes, pytrees, options, errors. Depends only on Python and NumPy."""
