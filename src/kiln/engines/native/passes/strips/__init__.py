"""Chains of products and nests in strips of rows."""
