"""What looks at programs from outside. May import everything; nobody imports it."""
