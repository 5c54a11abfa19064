"""Codecs between bytes and the data model, for transactions and rules: exact and bounded."""
