"""What programs tell of themselves: where they keep what, what they cost, how they look."""
