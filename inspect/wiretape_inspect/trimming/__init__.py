"""A recording cut down to what matters, and what was forgotten taken out of it."""
