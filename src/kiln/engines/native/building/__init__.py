"""What lowerings write loops with."""
