"""Programs of eager operations as plans: compiled loops over memory, nothing compiled for them."""
