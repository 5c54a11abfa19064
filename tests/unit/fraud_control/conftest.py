"""Fixtures for tests of the control plane."""

from tests.support.control_plane.fixtures import log, own_broker, scene

__all__ = ["log", "own_broker", "scene"]
