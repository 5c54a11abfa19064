"""Removes data beyond its retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from fraud_rules_airflow.error_mapping import airflow_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class RetentionOperator(BaseOperator):
    """Lets the control plane remove what is older than its settings permit, and logs the numbers of removed rows."""

    def execute(self, context: Context) -> dict[str, Any]:
        from fraud_rules_airflow.hooks.retention import RetentionHook

        with airflow_errors():
            removed = RetentionHook().remove_expired()
        self.log.info("removed: %s", ", ".join(f"{rows} {name}" for name, rows in removed.items()))
        return removed
