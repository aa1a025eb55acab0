"""Reports about programs: their memory, their costs, a picture."""
