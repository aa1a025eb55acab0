"""Functions of one element of each operand: arithmetic, logic, special functions, conversion."""
