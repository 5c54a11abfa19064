"""Executes the warm-ups that rules request: collects their past transactions on Spark, beside the detector."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions
from fraud_rules_airflow.operators.batch import WarmUpOperator
from fraud_rules_airflow.triggers.warm_up import WarmUpTrigger

DOC = """
### Warm-ups
A rule with `warmUp` requests the transactions before it. A watcher in the triggerer reads `rule-operations` and starts
a run for a request. *warm_up* collects the past from the archive and the topic, and writes the result to `warm-ups`.
The detector adds it in one batch. A killed run has no effect; the watcher starts another one while the request is open.
Without an open request, the task is skipped and starts no Spark.

A refused warm-up is in `rule-operations` with its reason. See docs/run.md.
"""


def create_dag(options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_warm_up") -> DAG:
    """Create the DAG."""
    watcher = AssetWatcher("fraud_warm_up_requests", WarmUpTrigger(options.kafka_conn_id))
    requests = Asset(
        name="fraud_warm_up_requests", uri="fraud://rule-operations/warm-ups", group="fraud", watchers=[watcher]
    )
    with options.dag(
        dag_id,
        "The past transactions of rules that request them",
        DOC,
        tag="nightly",
        schedule=[requests],
        deadline=options.deadline(timedelta(hours=1), "a warm-up has not ended within an hour", of_queueing=True),
    ) as dag:
        options.batch_task(
            WarmUpOperator,
            "warm_up",
            task_id="warm_up",
            doc_md="Collects the past transactions of the open requests.",
            execution_timeout=timedelta(minutes=55),
        )
    return dag
