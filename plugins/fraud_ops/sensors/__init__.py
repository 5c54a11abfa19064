"""Sensors: they wait for a state of the detector, deferred from the first moment."""
