"""When a new function object is a known function: what can be read of it, and is it the same."""
