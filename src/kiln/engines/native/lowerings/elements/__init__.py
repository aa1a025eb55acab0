"""What functions of each element become in loops."""
