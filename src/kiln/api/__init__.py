"""The transformations people call: pytrees and argument numbers in, programs out."""
