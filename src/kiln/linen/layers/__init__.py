"""Layers: modules written with only the public interface of `kiln.linen`."""
