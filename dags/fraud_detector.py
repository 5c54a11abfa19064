"""Keeps exactly one healthy detector running: deploys the declared release, then supervises it."""

from fraud_rules_airflow.dags import detector

detector.create_dag()
