"""Operators: each does one thing. They append intents, which agents execute."""
