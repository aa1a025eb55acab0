"""Lowerings of what is computed along axes."""
