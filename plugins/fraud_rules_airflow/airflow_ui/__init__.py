"""What Airflow's pages show of the detector: links on tasks, runbooks, logs and reports."""
