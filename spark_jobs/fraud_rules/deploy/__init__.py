"""Deployment: what should run, what runs, and what follows from both. Values and pure functions, and their log."""
