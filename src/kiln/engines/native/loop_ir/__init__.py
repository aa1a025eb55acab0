"""Programs as loops: what they are, their text and rules, and what is asked of them."""
