"""Applies config/rules, config/lists and config/maps to the rule log. Changes only what has the source `seed`."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.rules import SeedApplyOperator
from fraud_rules_airflow.sensors.detector import RulesLiveSensor

DOC = """
### Rules, lists and maps from Git
`config/rules` has the seed rules, `config/lists` the seed lists, and `config/maps` the seed maps. *apply* logs a table
of the rules, lists and maps to create, change and delete, and writes these changes. *live* waits until the detector
reports every version live. A second run changes nothing.

The DAG never changes rules of another source (`ui`, `cli`, `cdc`), and ignores a seed rule with the id of such a rule.
The source of a list or map is that of its last change.

The review in Git approves seed files. If a rule needs an approval in the control plane, save it there (`fraud rules
save`) instead.
"""


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_seed_rules", schedule: DagSchedule = timedelta(hours=1)
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Reconciles config/rules, lists and maps with the rule log",
        DOC,
        tag="rules",
        schedule=schedule,
        deadline=options.deadline(timedelta(days=1), "seed rules are not live"),
    ) as dag:
        apply = SeedApplyOperator(
            task_id="apply",
            doc_md="Shows and writes the rules, lists and maps to create, change and delete.",
            execution_timeout=timedelta(minutes=5),
        )
        live = RulesLiveSensor(
            task_id="live",
            doc_md="Waits until the detector acknowledges each version.",
            versions=apply.output,
            timeout=timedelta(hours=6).total_seconds(),
        )
        apply >> live
    return dag
