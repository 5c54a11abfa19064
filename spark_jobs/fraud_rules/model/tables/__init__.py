"""Immutable sets and maps of longs and texts, in arrays: what lists and maps consist of."""
