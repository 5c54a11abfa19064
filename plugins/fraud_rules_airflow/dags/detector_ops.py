"""Manual actions on the detector."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from fraud_ops.verdicts.actions import OperatorRequest
from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions
from fraud_rules_airflow.operators.detector import DecisionOperator

DOC = """
### Manual actions
Trigger this DAG, choose an action, and enter a reason. The topic `detector-intents` keeps the reason and your name for
ever.

| action | effect |
| --- | --- |
| start | runs the declared release, and lifts a stop of the rule log |
| drain | stops after the current batch; the detector stays stopped until a user starts it |
| restart | runs the same release again |
| roll back | runs the previous release, if it had committed at least 10 batches |
| rebuild | recomputes the state from the topics: after damage, or for another number of key groups |

The run ends when the action has taken effect, or fails with the reason.
"""


def create_dag(options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_detector_ops") -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Start, drain, restart, roll back or rebuild the detector, with a reason",
        DOC,
        tag="manual",
        schedule=None,
        starts_paused=False,
        retries=0,
        deadline=options.deadline(timedelta(hours=1), "a manual action has not taken effect in time"),
        params={
            "action": Param("start", type="string", enum=[each.value for each in OperatorRequest], title="Action"),
            "reason": Param(
                type="string", minLength=3, maxLength=500, title="Reason", description="Kept for ever with the action."
            ),
            "partial": Param(
                False,
                type="boolean",
                title="Rebuild without the removed beginning of the topic",
                description="Windows that reach back further are incomplete, and their alerts say so.",
            ),
            "accept_loss": Param(
                False,
                type="boolean",
                title="Continue without lost transactions",
                description="For OFFSETS_LOST: the detector never evaluates the lost transactions, and reports them.",
            ),
        },
    ) as dag:
        DecisionOperator(
            task_id="carry_out",
            doc_md="Records the intent and waits for its outcome in a deferred task.",
            action="{{ params.action }}",
            reason="{{ params.reason }}",
            partial_history="{{ params.partial }}",
            accept_loss="{{ params.accept_loss }}",
            execution_timeout=timedelta(minutes=30),
        )
    return dag
