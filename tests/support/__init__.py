"""Modules that several tests, or tests and the benchmarks, need. They contain no tests."""
