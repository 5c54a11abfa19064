"""Receivers of notifications: real servers on free ports."""
