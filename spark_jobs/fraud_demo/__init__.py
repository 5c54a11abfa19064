"""`make demo`: everything on one machine, with generated traffic, planted frauds, and a check of every alert.

A package of its own above the product, which does not import it: its commands and pages are entry points.
"""
