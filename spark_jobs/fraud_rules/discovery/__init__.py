"""Understands the records of a foreign topic, proposes a schema for them, and checks records with a schema."""
