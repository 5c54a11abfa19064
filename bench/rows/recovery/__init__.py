"""Measures starts and recoveries under hard conditions: a large state, a busy machine, and the whole demo."""
