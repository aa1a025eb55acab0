"""Programs as object files that other programs link: see README.md."""
