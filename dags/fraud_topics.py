"""Creates and changes the topics as config/topics.yaml declares them."""

from fraud_rules_airflow.dags import topics

topics.create_dag()
