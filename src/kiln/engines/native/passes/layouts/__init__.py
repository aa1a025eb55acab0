"""Passes that choose the order of axes in memory."""
