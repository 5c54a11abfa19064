"""Brings the rule log to what config/rules declares, as far as the log's records are of source `seed`."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.rules import SeedApplyOperator, SeedApprovalOperator, SeedDiffOperator
from fraud_ops.sensors.detector import RulesLiveSensor

DOC = """
### Rules from Git
`config/rules` is the seed. *diff* shows, as a table in its log, what would be created, changed and deleted. Rules of
another source (`ui`, `cli`, `cdc`) are never touched: a seed rule with the id of one of those is left alone.

A change of a rule that says `approve: true`, now or in the log, waits for a user named in the Airflow variable
`fraud_rule_approvers`; `approve: ann, bob` names them in the rule. Who triggered the run cannot approve it.

*apply* writes exactly what was shown, or fails. *live* waits until the detector reports every version live. A second
run changes nothing.
"""

with DAG(
    dag_id="fraud_seed_rules",
    description="Reconciles config/rules with the rule log",
    doc_md=DOC,
    schedule=timedelta(hours=1),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "rules"],
    default_args=defaults(),
    deadline=deadline(timedelta(days=1), "seed rules wait for an approval, or are not live"),
):
    diff = SeedDiffOperator(
        task_id="diff",
        doc_md="What would be created, changed and deleted.",
        execution_timeout=timedelta(minutes=5),
    )
    approve = SeedApprovalOperator(
        task_id="approve",
        doc_md="Waits for an approval, where a rule asks for one.",
        diff=diff.task_id,
        response_timeout=timedelta(days=2),
    )
    apply = SeedApplyOperator(
        task_id="apply",
        doc_md="Writes what was shown.",
        digest="{{ ti.xcom_pull(task_ids='diff')['digest'] }}",
        execution_timeout=timedelta(minutes=5),
    )
    live = RulesLiveSensor(
        task_id="live",
        doc_md="Waits for the detector's word on each version.",
        versions=apply.output,
        timeout=timedelta(hours=6).total_seconds(),
    )
    diff >> approve >> apply >> live
