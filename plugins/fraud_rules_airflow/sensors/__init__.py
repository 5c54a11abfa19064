"""Sensors that wait for the detector or the archive."""
