"""What runs programs. No module imports an engine: `core/engine.py` loads it by name."""
