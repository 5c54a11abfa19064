"""The archive: the logs as Parquet, transactions by event day, under one manifest. See docs/nightly.md."""
