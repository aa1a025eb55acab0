"""Programs as text and HTML."""
