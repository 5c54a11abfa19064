"""Executes the warm-ups that rules request: collects their past transactions on Spark, beside the detector."""

from fraud_rules_airflow.dags import warm_up

warm_up.create_dag()
