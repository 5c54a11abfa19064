"""The clients of Kafka. No other package imports a Kafka client. This one knows records and topics, but no rules."""
