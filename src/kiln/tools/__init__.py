"""Tools that inspect programs from outside. May import everything; nothing imports them."""
