"""Functions with rules of the user's: derivatives, batching, linear solves, roots."""
