"""Running executables: effects, several virtual devices, several processes."""
