"""The rule control plane: a store of rules with their history, a desk that changes them, an API, pages in Airflow."""
