"""Meters: they watch a running detector, or the process that they start, and return figures."""
