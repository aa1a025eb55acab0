"""What is computed along axes: reductions, cumulative ones, sliding windows, sorting."""
