"""Modules that several tests, or tests and the benchmarks, need. None of them holds a test."""
