"""The search of the previous payments."""
