"""Joining, splitting, repeating, padding and reordering elements; bits packed into bytes."""
