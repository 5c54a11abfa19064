"""Requests the approval of seed changes that need one, and applies them. Each request is a run."""

from fraud_rules_airflow.dags import seed_approval

seed_approval.create_dag()
