"""The transformations that users call: pytrees and argument numbers in, programs out."""
