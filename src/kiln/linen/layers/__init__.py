"""The layers: modules written with the public interface of `kiln.linen` alone."""
