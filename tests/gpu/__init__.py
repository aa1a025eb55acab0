"""Programs that kiln exports for a GPU, and what they compute there."""
