"""What programs do besides computing values: callbacks, printing, checks, foreign calls."""
