"""All I/O of operations: Airflow's connections, Kafka, webhooks. Pure modules assess the results."""
