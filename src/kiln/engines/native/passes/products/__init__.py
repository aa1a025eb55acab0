"""Passes over products: epilogues, and chains in strips of rows."""
