"""How programs run: compiled once, placed on devices, given memory; eager operations as plans."""
