"""Groups of rows about rules: their cost, their number, and their log."""
