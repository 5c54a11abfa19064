"""Evaluates a draft rule over past days. Publishes nothing."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions
from fraud_rules_airflow.operators.batch import WhatIfOperator

DOC = """
### Backtest
Enter a rule (its JSON in the format of the rule log, or the id of a rule in force) and a number of days, and trigger
the DAG. The button **Report** opens a page with the number, keys and times of the alerts that the rule would have
raised, its overlap with each rule in force, and the results of other limits and windows. The DAG reads only the
archive. `fraud whatif` does the same.
"""

EXAMPLE = """{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId", "beneficiaryId"],
 "aggregateFieldName": "paymentAmount", "aggregatorFunctionType": "SUM", "limitOperatorType": ">",
 "limit": 20000, "windowMinutes": 20}"""


def create_dag(options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_backtest") -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Evaluates a draft rule over past days",
        DOC,
        tag="nightly",
        schedule=None,
        starts_paused=False,
        retries=0,
        params={
            "rule": Param(
                EXAMPLE, type="string", format="multiline", title="Rule", description="JSON, or the id of a rule."
            ),
            "days": Param(7, type="integer", minimum=1, maximum=400, title="Days"),
            "until": Param(
                "", type="string", title="Last day", description="For example 2026-11-20. Empty: the last archived day."
            ),
            "limits": Param(
                "",
                type="string",
                title="Limits to try",
                description="Separated by commas. Empty: quantiles of the aggregate.",
            ),
        },
        deadline=options.deadline(timedelta(hours=3), "a backtest has not ended three hours after its request"),
    ) as dag:
        WhatIfOperator(
            task_id="whatif",
            doc_md="Evaluates the rule over the days.",
            rule="{{ params.rule }}",
            days="{{ params.days }}",
            until="{{ params.until }}",
            limits="{{ params.limits }}",
            execution_timeout=timedelta(hours=2),
        )
    return dag
