"""Sums by step: what long windows count of the rows that the retention bound has passed."""
