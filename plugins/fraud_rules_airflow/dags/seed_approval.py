"""Requests the approval of seed changes that need one, and applies them. Each request is a run."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions
from fraud_rules_airflow.operators.rules import APPROVE, REQUESTS, SeedApplyOperator, SeedApprovalOperator
from fraud_rules_airflow.sensors.detector import RulesLiveSensor

DOC = """
### Approval of seed rules and lists
`fraud_seed_rules` triggers a run for each change that needs an approval. The run waits under *Required actions* for a
user in the Airflow variable `fraud_rule_approvers`; `approve: ann, bob` names the users in the rule. The user who
triggered the run of `fraud_seed_rules` cannot approve. The id of the run is the digest of the change.

| the tasks | the request |
| --- | --- |
| *approve* waits | is open |
| *live* succeeded | was approved, and is live |
| *approve* succeeded, *apply* is skipped | was rejected. It is not requested again, unless you clear the run |
| *approve* failed | had no answer within two days. The next run of `fraud_seed_rules` requests it again |
| *approve* is skipped | is void: files or rule log have changed |

*apply* writes exactly the approved change, or fails.
"""


def create_dag(options: DagOptions = DEFAULTS, *, dag_id: str = REQUESTS) -> DAG:
    """Create the DAG."""
    with DAG(
        dag_id=dag_id,
        description="Waits for the approval of seed rules and lists, and applies them",
        doc_md=DOC,
        schedule=None,
        catchup=False,
        max_active_runs=1_000,
        is_paused_upon_creation=False,
        tags=[*options.tags, "rules"],
        default_args=options.default_args(),
        deadline=options.deadline(timedelta(days=1), "seed rules still wait for an approval, or are not live"),
        params={"request": Param(type="string", minLength=1, title="Request", description="The digest of the change.")},
    ) as dag:
        approve = SeedApprovalOperator(
            task_id=APPROVE,
            doc_md="Waits for an approval.",
            request="{{ params.request }}",
            response_timeout=timedelta(days=2),
            retries=0,
        )
        apply = SeedApplyOperator(
            task_id="apply",
            doc_md="Writes the approved change.",
            digest="{{ params.request }}",
            approved=True,
            execution_timeout=timedelta(minutes=5),
        )
        live = RulesLiveSensor(
            task_id="live",
            doc_md="Waits until the detector acknowledges each version.",
            versions=apply.output,
            timeout=timedelta(hours=6).total_seconds(),
        )
        approve >> apply >> live
    return dag
