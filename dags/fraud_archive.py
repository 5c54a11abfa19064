"""Copies the logs to the archive every hour, and checks its lead over their retention, and the nights."""

from fraud_rules_airflow.dags import archive

archive.create_dag()
