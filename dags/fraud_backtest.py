"""Evaluates a draft rule over past days. Publishes nothing."""

from fraud_rules_airflow.dags import backtest

backtest.create_dag()
