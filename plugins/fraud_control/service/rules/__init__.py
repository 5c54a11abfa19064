"""Rules: their content, and the changes of it."""
