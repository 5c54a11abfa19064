"""Reads that child processes do for the API server, because they would hold the interpreter lock for too long."""
