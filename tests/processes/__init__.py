"""Programs of several processes: see README.md."""
