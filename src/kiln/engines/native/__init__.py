"""The native engine's first tier: eager programs as plans of loops, nothing compiled for them."""
