"""The checkpoint of a detector: its newest marker in Kafka."""
