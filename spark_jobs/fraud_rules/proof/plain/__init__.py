"""A plain evaluator of rules: Python's standard library only, and nothing of the product. Slow, and short to read."""
