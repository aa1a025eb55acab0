"""Parts of arrays: slices, and windows at computed positions."""
