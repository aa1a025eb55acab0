"""Random keys and generators, and the bits that they give."""
