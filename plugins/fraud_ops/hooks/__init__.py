"""All I/O of operations: Airflow's connections, Kafka, checkpoints, webhooks. What they return is judged elsewhere."""
