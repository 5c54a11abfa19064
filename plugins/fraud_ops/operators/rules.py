"""Seeding of rules: show the difference, request the approval, write the records.

The modules that read rules are imported inside functions, because DAG files import this module and are parsed often.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Variable
from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.error_mapping import airflow_errors
from fraud_ops.hooks.connections import KAFKA

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["APPROVERS", "SeedApplyOperator", "SeedApprovalOperator", "SeedDiffOperator"]

APPROVERS = "fraud_rule_approvers"
"""An Airflow variable with a JSON list of the users who may approve rules."""


class SeedDiffOperator(BaseOperator):
    """Compares the seed files with the rule log, and logs the difference as a table."""

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from fraud_ops.hooks.rules import SeedRulesHook

        with airflow_errors():
            plan = SeedRulesHook(self.kafka_conn_id).plan()
        table = plan.table()
        self.log.info("seed rules against the rule log:\n%s", table)
        changes = plan.to_approve
        approvers = {name for change in changes for name in change.approvers or ()}
        return {
            "digest": plan.digest,
            "writes": len(plan.records),
            "table": table,
            "approve": bool(changes),
            "approvers": sorted(approvers),
        }


class SeedApprovalOperator(ApprovalOperator):
    """Requests an approval if a changed rule needs one. The user who triggered the run cannot approve.

    `diff` is the task id of the `SeedDiffOperator`.
    """

    def __init__(self, *, diff: str, **kwargs: Any) -> None:
        super().__init__(subject="Seed rules wait for approval", body="", **kwargs)
        self.diff = diff

    def execute(self, context: Context) -> Any:
        found = context["ti"].xcom_pull(task_ids=self.diff)
        if not found["approve"]:
            self.log.info("no change needs an approval")
            return None
        requester = context["dag_run"].triggering_user_name
        may = found["approvers"] or json.loads(Variable.get(APPROVERS, default="[]"))
        users = [user for user in may if user != requester]
        if not users:
            raise AirflowFailException(
                f"no user can approve this change: add users other than {requester or 'the requester'} to the "
                f"Airflow variable {APPROVERS}, or to the rule's `approve`"
            )
        self.body = found["table"]
        self.assigned_users = [{"id": user, "name": user} for user in users]
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        by = (event.get("responded_by_user") or {}).get("name")
        if by is not None and by == context["dag_run"].triggering_user_name:
            raise AirflowFailException(f"{by} requested this change and cannot approve it")
        return super().execute_complete(context, event)


class SeedApplyOperator(BaseOperator):
    """Writes the shown difference. Fails if files or rule log have changed since. Returns the versions."""

    template_fields: Sequence[str] = ("digest",)

    def __init__(self, *, digest: Any, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.digest = digest
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[int]:
        from fraud_ops.hooks.rules import SeedRulesHook

        with airflow_errors():
            hook = SeedRulesHook(self.kafka_conn_id)
            plan = hook.plan()
            if plan.to_write and plan.digest != self.digest:
                raise AirflowFailException(
                    "files or rule log have changed since the difference was shown: run the DAG again"
                )
            versions = hook.write(plan)
        self.log.info("%s records written, with versions %s", len(versions), versions)
        return versions
