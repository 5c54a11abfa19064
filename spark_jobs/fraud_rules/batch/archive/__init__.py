"""The archive: the logs as Parquet, transactions by event day, under one manifest, and the job that writes it."""
