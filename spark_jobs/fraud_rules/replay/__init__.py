"""Evaluates recorded streams in memory, and rebuilds a state from evaluated batches."""
