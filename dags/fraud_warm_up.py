"""Executes the warm-ups that rules request: collects their past transactions on Spark, beside the detector."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from fraud_rules_airflow.dag_defaults import TAGS, deadline, defaults
from fraud_rules_airflow.operators.batch import WarmUpOperator
from fraud_rules_airflow.triggers.warm_up import WarmUpTrigger

REQUESTS = Asset(
    name="fraud_warm_up_requests",
    uri="fraud://rule-operations/warm-ups",
    group="fraud",
    watchers=[AssetWatcher("fraud_warm_up_requests", WarmUpTrigger("fraud_kafka"))],
)

DOC = """
### Warm-ups
A rule with `warmUp` requests the transactions before it. A watcher in the triggerer reads `rule-operations` and starts
a run for a request. *warm_up* collects the past from the archive and the topic, and writes the result to `warm-ups`.
The detector adds it in one batch. A killed run has no effect; the watcher starts another one while the request is open.
Without an open request, the task is skipped and starts no Spark.

A refused warm-up is in `rule-operations` with its reason. See docs/run.md.
"""

with DAG(
    dag_id="fraud_warm_up",
    description="The past transactions of rules that request them",
    doc_md=DOC,
    schedule=[REQUESTS],
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=[*TAGS, "nightly"],
    default_args=defaults(),
    deadline=deadline(timedelta(hours=1), "a warm-up has not ended within an hour", of_queueing=True),
):
    WarmUpOperator(
        task_id="warm_up",
        doc_md="Collects the past transactions of the open requests.",
        execution_timeout=timedelta(minutes=55),
    )
