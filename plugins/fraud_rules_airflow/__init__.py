"""The provider for Airflow: operators, sensors, triggers, hooks, notifiers, links and DAGs.

`hooks` do the I/O of Airflow, `triggers` wait, and `operators` and `sensors` do one thing each. The pure decisions are
in `fraud_ops.verdicts`.
"""
