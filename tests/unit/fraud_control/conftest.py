"""Fixtures for tests of the control plane."""

from tests.support.control_plane.fixtures import own_broker, scene

__all__ = ["own_broker", "scene"]
