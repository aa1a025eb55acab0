"""What makes arrays, and reads or writes parts of them, in loops."""
