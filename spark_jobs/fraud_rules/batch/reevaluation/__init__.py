"""Nightly re-evaluation: replays days from the archive through the detector's engine."""
