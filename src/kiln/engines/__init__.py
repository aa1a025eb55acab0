"""What runs programs. Nobody imports an engine: `core/engines/engine.py` loads it by name."""
