"""Raises UNSUPERVISED when nothing supervises a detector that should run."""

from fraud_rules_airflow.dags import supervision

supervision.create_dag()
