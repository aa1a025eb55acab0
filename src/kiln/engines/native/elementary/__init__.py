"""Elementary functions as scalar expressions, one family per file, merged here."""
