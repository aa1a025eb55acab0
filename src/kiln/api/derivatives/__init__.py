"""Derivatives as users ask for them: gradients, Jacobians, linear functions."""
