"""The DAGs of the product. Each module has `create_dag`, so that a DAG file of three lines can create them:

from fraud_rules_airflow.dags import detector, topics

detector.create_dag()
topics.create_dag(schedule="@daily")
"""
