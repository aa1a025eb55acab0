"""Programs of modules, written once for kiln.linen and flax.linen."""
