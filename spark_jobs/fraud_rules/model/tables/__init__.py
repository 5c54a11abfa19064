"""Immutable values in arrays: the sets and maps of which lists and maps consist, and narrow columns."""
