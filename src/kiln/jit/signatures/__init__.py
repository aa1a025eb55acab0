"""From the arguments of a call to the signature that its program is cached under."""
