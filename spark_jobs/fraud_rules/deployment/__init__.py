"""Intents, attempts and the decisions that follow from them: values and pure functions, without engines or Kafka."""
