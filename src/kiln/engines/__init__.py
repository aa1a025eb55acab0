"""What runs programs. No module imports an engine: `core/engines/engine.py` loads it by name."""
