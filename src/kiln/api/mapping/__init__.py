"""`vmap`: axes of trees of arguments, and types that say how they are mapped."""
