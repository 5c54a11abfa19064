"""Liveness: whether payments are evaluated at this moment, from the last batch and the ends of the topics."""
