"""The only code that uses jaxlib's clients: devices, buffers, transfers, other processes."""
