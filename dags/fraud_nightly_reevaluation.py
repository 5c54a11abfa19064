"""Evaluates the previous day again, with all its data, and publishes missing and spurious alerts as corrections."""

from fraud_rules_airflow.dags import nightly_reevaluation

nightly_reevaluation.create_dag()
