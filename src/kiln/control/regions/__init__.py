"""What primitives that hold programs share: user functions as regions, regions rewritten."""
