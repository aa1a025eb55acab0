"""What becomes an array: Python and NumPy data, fillings, ranges, matrices; other dtypes."""
