"""What people do to the detector by hand."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.detector import DecisionOperator
from fraud_ops.verdicts.act import Action

DOC = """
### By hand
Trigger this DAG, choose what to do, and give a reason: it is kept for ever, with your name, in the topic `detector-
intents`.

| action | what it does |
| --- | --- |
| start | runs what is declared here, and lifts a stop of the rule log |
| drain | stops after the batch in hand; it stays stopped until somebody starts it |
| restart | the same release again, on the same checkpoint |
| roll back | the release before, if it had committed at least 10 batches |
| rebuild | a fresh checkpoint from the topics: the way out of a damaged one, and to another number of key groups |

The run ends when what was asked for has come about, or says why it has not.
"""

with DAG(
    dag_id="fraud_detector_ops",
    description="Start, drain, restart, roll back or rebuild the detector, with a reason",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "by hand"],
    default_args=defaults(retries=0),
    deadline=deadline(timedelta(hours=1), "what was asked for by hand has not come about"),
    params={
        "action": Param("start", type="string", enum=[each.value for each in Action], title="What to do"),
        "reason": Param(
            type="string", minLength=3, maxLength=500, title="Why", description="Kept for ever with the decision."
        ),
        "partial": Param(
            False,
            type="boolean",
            title="Rebuild although the topic has lost its beginning",
            description="Windows that reach back before what is left will be incomplete, and say so.",
        ),
        "accept_loss": Param(
            False,
            type="boolean",
            title="Go on without lost transactions",
            description="For OFFSETS_LOST: the detector never evaluates the lost transactions, and reports them.",
        ),
    },
):
    DecisionOperator(
        task_id="carry_out",
        doc_md="Records the decision and waits for its outcome, deferred.",
        action="{{ params.action }}",
        reason="{{ params.reason }}",
        partial_history="{{ params.partial }}",
        accept_loss="{{ params.accept_loss }}",
        execution_timeout=timedelta(minutes=30),
    )
