"""The native engine's first tier: eager programs as plans of loops, without compilation."""
