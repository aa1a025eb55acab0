"""LLVM: the IR that the native engine generates, its targets, and its compilation to machine
code."""
