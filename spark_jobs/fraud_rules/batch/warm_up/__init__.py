"""Warm-ups: the job that collects the past of a grouping, for rules that request it."""
