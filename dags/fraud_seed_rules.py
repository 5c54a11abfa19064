"""Applies config/rules and config/lists to the rule log. Changes only rules and lists of the source `seed`."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.rules import SeedApplyOperator, SeedApprovalOperator, SeedDiffOperator
from fraud_ops.sensors.detector import RulesLiveSensor

DOC = """
### Rules and lists from Git
`config/rules` has the seed rules, and `config/lists` the seed lists. *diff* shows a table of the rules and lists to
create, change and delete in its log. The DAG never changes rules of another source (`ui`, `cli`, `cdc`), and ignores a
seed rule with the id of such a rule. The source of a list is that of its last change.

If a rule has `approve: true`, in the file or in the log, its change waits for a user in the Airflow variable
`fraud_rule_approvers`. `approve: ann, bob` names the users in the rule. The user who triggered the run cannot approve
it. A change of a list needs the approvals of the rules that name the list.

*apply* writes exactly the shown changes, or fails. *live* waits until the detector reports every version live. A
second run changes nothing.
"""

with DAG(
    dag_id="fraud_seed_rules",
    description="Reconciles config/rules and config/lists with the rule log",
    doc_md=DOC,
    schedule=timedelta(hours=1),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "rules"],
    default_args=defaults(),
    deadline=deadline(timedelta(days=1), "seed rules still wait for an approval, or are not live"),
):
    diff = SeedDiffOperator(
        task_id="diff",
        doc_md="Shows the rules and lists to create, change and delete.",
        execution_timeout=timedelta(minutes=5),
    )
    approve = SeedApprovalOperator(
        task_id="approve",
        doc_md="Waits for an approval, if a rule requires it.",
        diff=diff.task_id,
        response_timeout=timedelta(days=2),
    )
    apply = SeedApplyOperator(
        task_id="apply",
        doc_md="Writes the shown changes.",
        digest="{{ ti.xcom_pull(task_ids='diff')['digest'] }}",
        execution_timeout=timedelta(minutes=5),
    )
    live = RulesLiveSensor(
        task_id="live",
        doc_md="Waits until the detector acknowledges each version.",
        versions=apply.output,
        timeout=timedelta(hours=6).total_seconds(),
    )
    diff >> approve >> apply >> live
