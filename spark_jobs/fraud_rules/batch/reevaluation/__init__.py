"""Nightly re-evaluation: days replayed from the archive through the detector's own engine."""
