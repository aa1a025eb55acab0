"""Plans of eager calls: which loops, compiled already, run over which memory."""
