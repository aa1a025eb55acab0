"""Elements arranged anew: joined, repeated, padded, reordered, packed."""
