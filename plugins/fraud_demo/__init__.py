"""`make demo`: runs the whole product on one machine with generated traffic and planted frauds, and checks every alert.

The product does not import this package. Its commands and pages are entry points.
"""
