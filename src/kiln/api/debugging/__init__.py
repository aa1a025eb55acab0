"""What users look at while a program runs: breakpoints, shardings."""
