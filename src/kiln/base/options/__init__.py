"""Options: kiln's own, and JAX's names for them."""
