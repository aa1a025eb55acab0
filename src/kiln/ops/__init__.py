"""The first-order primitives, one family to a file, each with its rules."""
