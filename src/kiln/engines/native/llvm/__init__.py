"""LLVM: what the native engine writes, for which processors, and how it becomes machine code."""
