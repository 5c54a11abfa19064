"""Seeding of rules: show the difference between the seed files and the rule log, and write it.

The modules that read rules are imported inside functions, because DAG files import this module and are parsed often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.connections import KAFKA

if TYPE_CHECKING:
    from airflow.sdk import Context


class SeedApplyOperator(BaseOperator):
    """Logs the difference between the seed files and the rule log as a table, and writes it. Returns the versions."""

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[int]:
        from fraud_rules_airflow.hooks.rules import SeedRulesHook

        with airflow_errors():
            hook = SeedRulesHook(self.kafka_conn_id)
            plan = hook.plan()
            self.log.info("seed files against the rule log:\n%s", plan.table())
            versions = hook.write(plan)
        self.log.info("%s records written, with versions %s", len(versions), versions)
        return versions
