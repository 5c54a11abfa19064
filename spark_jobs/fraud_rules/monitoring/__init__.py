"""Liveness: whether the detector evaluates payments now, from the last batch and the ends of the topics."""
