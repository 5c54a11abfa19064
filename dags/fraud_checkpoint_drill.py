"""Checks daily that the detector's state can be restored."""

from fraud_rules_airflow.dags import checkpoint_drill

checkpoint_drill.create_dag()
