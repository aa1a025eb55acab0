"""kiln on another processor: Python, NumPy and kiln for it, run by an emulator."""
