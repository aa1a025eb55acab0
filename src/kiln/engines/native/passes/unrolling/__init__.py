"""Passes that unroll axes of nests."""
