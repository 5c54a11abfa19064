"""Evaluates a draft rule over past days. Publishes nothing."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from fraud_rules_airflow.dag_defaults import TAGS, deadline, defaults
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

with DAG(
    dag_id="fraud_backtest",
    description="Evaluates a draft rule over past days",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "nightly"],
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
    default_args=defaults(retries=0),
    deadline=deadline(timedelta(hours=3), "a backtest has not ended three hours after its request"),
):
    WhatIfOperator(
        task_id="whatif",
        doc_md="Evaluates the rule over the days.",
        rule="{{ params.rule }}",
        days="{{ params.days }}",
        until="{{ params.until }}",
        limits="{{ params.limits }}",
        execution_timeout=timedelta(hours=2),
    )
