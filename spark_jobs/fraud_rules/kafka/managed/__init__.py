"""The parts for managed clusters, which refuse some settings."""
