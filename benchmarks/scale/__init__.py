"""A large training step on many devices: what it exchanges, holds and costs to compile."""
