"""The Spark session of all rebuilds of this folder."""

from tests.support.recovery.handmade import session

__all__ = ["session"]
