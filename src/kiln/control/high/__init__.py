"""Values of other kinds than arrays: primitives on them, loops and branches over them."""
