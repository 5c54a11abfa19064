"""The detector as a Spark stream: what its driver and its workers share."""
