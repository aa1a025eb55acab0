"""What runs programs. Nobody imports an engine: `core/engine.py` loads it by name."""
