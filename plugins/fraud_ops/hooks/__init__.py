"""All I/O of operations: Airflow's connections, Kafka, checkpoints, webhooks. Pure modules assess the results."""
