"""What caches are made of: bounds in bytes, keys hashed once, a count of what was replaced."""
