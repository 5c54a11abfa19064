"""Triggers: they wait without a worker slot."""
