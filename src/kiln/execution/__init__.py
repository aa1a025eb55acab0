"""How programs run: compilation, placement on devices, donation; eager operations and plans."""
