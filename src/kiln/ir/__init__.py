"""Programs as data: types, sizes, effects, jaxprs. Nothing here runs or traces."""
