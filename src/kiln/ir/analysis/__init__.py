"""Questions about programs, which leave them as they are."""
