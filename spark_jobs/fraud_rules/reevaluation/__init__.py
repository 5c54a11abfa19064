"""Nightly re-evaluation and what-if: days replayed from the archive through the detector's own engine.

See docs/nightly.md.
"""
