"""Sets as sorted arrays without duplicates."""
