"""Program to program: derivatives, batching, partial evaluation, simplification."""
