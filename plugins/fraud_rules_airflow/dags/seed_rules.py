"""Applies config/rules, config/lists and config/maps to the rule log. Changes only what has the source `seed`."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.rules import REQUESTS, SeedApplyOperator, SeedDiffOperator
from fraud_rules_airflow.sensors.detector import RulesLiveSensor

DOC = """
### Rules, lists and maps from Git
`config/rules` has the seed rules, `config/lists` the seed lists, and `config/maps` the seed maps. *diff* shows a table
of the rules, lists and maps to create, change and delete in its log. The DAG never changes rules of another source
(`ui`, `cli`, `cdc`), and ignores a seed rule with the id of such a rule. The source of a list or map is that of its
last change.

*apply* writes exactly the shown changes that need no approval, or fails. *live* waits until the detector reports every
version live. A second run changes nothing.

If a rule has `approve: true`, in the file or in the log, *request* triggers a run of `fraud_seed_approval` for its
change. A change of a list or map needs the approvals of the rules that name it. Changes that a list or map
connects wait together. All other changes do not wait.
"""


def create_dag(
    options: DagOptions = DEFAULTS,
    *,
    dag_id: str = "fraud_seed_rules",
    approval_dag_id: str = REQUESTS,
    schedule: DagSchedule = timedelta(hours=1),
) -> DAG:
    """Create the DAG. `approval_dag_id` is the DAG of `seed_approval`."""
    with DAG(
        dag_id=dag_id,
        description="Reconciles config/rules, lists and maps with the rule log",
        doc_md=DOC,
        schedule=schedule,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=True,
        tags=[*options.tags, "rules"],
        default_args=options.default_args(),
        deadline=options.deadline(timedelta(days=1), "seed rules are not live"),
    ) as dag:
        diff = SeedDiffOperator(
            task_id="diff",
            doc_md="Shows the rules and lists to create, change and delete.",
            approval_dag_id=approval_dag_id,
            execution_timeout=timedelta(minutes=5),
        )
        apply = SeedApplyOperator(
            task_id="apply",
            doc_md="Writes the shown changes that need no approval.",
            digest="{{ ti.xcom_pull(task_ids='diff', key='digest') }}",
            execution_timeout=timedelta(minutes=5),
        )
        live = RulesLiveSensor(
            task_id="live",
            doc_md="Waits until the detector acknowledges each version.",
            versions=apply.output,
            timeout=timedelta(hours=6).total_seconds(),
        )
        TriggerDagRunOperator.partial(
            task_id="request",
            doc_md="Requests the approval of the other changes. A request that is open already is skipped.",
            trigger_dag_id=approval_dag_id,
            skip_when_already_exists=True,
            execution_timeout=timedelta(minutes=5),
        ).expand_kwargs(diff.output)
        diff >> apply >> live
    return dag
