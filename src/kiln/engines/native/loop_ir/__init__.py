"""Programs as loops: statements, their text, their invariants, and analyses."""
