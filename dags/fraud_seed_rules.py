"""Applies config/rules, config/lists and config/maps to the rule log. Changes only what has the source `seed`."""

from fraud_rules_airflow.dags import seed_rules

seed_rules.create_dag()
