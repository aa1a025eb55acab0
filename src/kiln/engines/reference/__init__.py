"""The smallest engine: evaluates every primitive's meaning in NumPy."""
