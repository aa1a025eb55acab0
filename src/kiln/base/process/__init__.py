"""The process that kiln runs in: forks, garbage, memory, and its number among others."""
