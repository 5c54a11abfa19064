"""Waiting that holds no worker slot."""
