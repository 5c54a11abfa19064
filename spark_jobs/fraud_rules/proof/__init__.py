"""The proof of an alert: its file, and the check of it without Kafka, Spark and the engine."""
