"""Checks the detector's checkpoint and its state every five minutes, from outside."""

from fraud_rules_airflow.dags import checkpoint_health

checkpoint_health.create_dag()
