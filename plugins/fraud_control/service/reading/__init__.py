"""Reads that child processes do for the server, because they would hold the interpreter lock for too long."""
