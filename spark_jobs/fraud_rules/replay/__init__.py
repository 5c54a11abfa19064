"""Recorded streams: evaluates them in memory, and rebuilds a state from the batches that were judged."""
