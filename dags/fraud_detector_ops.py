"""Manual actions on the detector."""

from fraud_rules_airflow.dags import detector_ops

detector_ops.create_dag()
