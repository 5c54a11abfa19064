"""Operators: each does one thing. They decide by appending intents; agents carry them out."""
