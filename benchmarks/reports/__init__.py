"""Programs that JAX's users reported as slow on CPUs, beside JAX and what they compared it with."""
