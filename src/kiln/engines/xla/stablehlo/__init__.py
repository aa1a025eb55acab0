"""From a jaxpr to a module of StableHLO, and portable modules read back."""
