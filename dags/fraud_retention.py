"""Removes closed cases and rows of the audit log beyond their retention, every day."""

from fraud_rules_airflow.dags import retention

retention.create_dag()
