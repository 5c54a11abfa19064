"""The start of the demo: its steps, its users, and its past days."""
