"""Parts of arrays: reading and updating them by index expressions, and choosing elements."""
