"""Kafka clients: the only package that imports one. It knows records and topics, and no rule or transaction."""
