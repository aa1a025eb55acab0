"""How operations become programs: primitives, traces, staging, eager execution, arrays."""
