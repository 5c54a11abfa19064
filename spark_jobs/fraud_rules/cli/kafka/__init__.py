"""`fraud kafka`: the topics and rights in Kafka, and a local broker."""
