"""Evaluates the rules of a row: reads the aggregates of windows, compares them with limits, and writes the output."""
