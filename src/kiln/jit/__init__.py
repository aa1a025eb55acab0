"""What happens on a call of a jitted function, one step to a file."""
