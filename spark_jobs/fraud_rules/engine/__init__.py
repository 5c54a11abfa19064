"""The detector's engine, free of Spark and Kafka: fan-out, key groups, and the windows of each grouping."""
