"""Limits of users: threads per kind of request, and rates."""
