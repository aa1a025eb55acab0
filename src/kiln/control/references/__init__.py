"""References to arrays that change, and programs without them."""
