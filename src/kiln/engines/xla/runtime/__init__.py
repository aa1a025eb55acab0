"""The only code that knows jaxlib's clients: devices, buffers, transfers, other processes."""
