"""Seeding rules: show what would change, ask who has to be asked, write it.

What reads rules is imported where it is used: DAG files are parsed often, and import this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Variable
from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.hooks.connections import KAFKA
from fraud_ops.named import named

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["APPROVERS", "SeedApplyOperator", "SeedApprovalOperator", "SeedDiffOperator"]

APPROVERS = "fraud_rule_approvers"
"""An Airflow variable: a JSON list of the users who may approve rules."""


class SeedDiffOperator(BaseOperator):
    """Compares the seed files with the rule log, and logs the difference as a table."""

    def __init__(self, *, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from fraud_ops.hooks.rules import SeedRulesHook

        with named():
            plan = SeedRulesHook(self.kafka_conn_id).plan()
        table = plan.table()
        self.log.info("seed rules against the rule log:\n%s", table)
        asked = plan.to_approve
        named_ones = {name for change in asked for name in change.approvers or ()}
        return {
            "digest": plan.digest,
            "writes": len(plan.to_write),
            "table": table,
            "approve": bool(asked),
            "approvers": sorted(named_ones),
        }


class SeedApprovalOperator(ApprovalOperator):
    """Asks one of those who may approve, where a rule of the difference says so; never who has triggered the run.

    `diff` is the task id of the `SeedDiffOperator`.
    """

    def __init__(self, *, diff: str, **kwargs: Any) -> None:
        super().__init__(subject="Seed rules wait for approval", body="", **kwargs)
        self.diff = diff

    def execute(self, context: Context) -> Any:
        found = context["ti"].xcom_pull(task_ids=self.diff)
        if not found["approve"]:
            self.log.info("nothing here needs an approval")
            return None
        requester = context["dag_run"].triggering_user_name
        may = found["approvers"] or json.loads(Variable.get(APPROVERS, default="[]"))
        who = [user for user in may if user != requester]
        if not who:
            raise AirflowFailException(
                f"nobody may approve this: name users other than {requester or 'the requester'} in the Airflow "
                f"variable {APPROVERS}, or in the rule's `approve`"
            )
        self.body = found["table"]
        self.assigned_users = [{"id": user, "name": user} for user in who]
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        by = (event.get("responded_by_user") or {}).get("name")
        if by is not None and by == context["dag_run"].triggering_user_name:
            raise AirflowFailException(f"{by} has asked for this, and cannot approve it")
        return super().execute_complete(context, event)


class SeedApplyOperator(BaseOperator):
    """Writes what was shown, and nothing else: when files or log have changed since, it fails. Returns the versions."""

    template_fields: Sequence[str] = ("digest",)

    def __init__(self, *, digest: Any, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.digest = digest
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[int]:
        from fraud_ops.hooks.rules import SeedRulesHook

        with named():
            hook = SeedRulesHook(self.kafka_conn_id)
            plan = hook.plan()
            if plan.to_write and plan.digest != self.digest:
                raise AirflowFailException("files or rule log have changed since this was shown: run the DAG again")
            versions = hook.write(plan)
        self.log.info("%s records written, as versions %s", len(versions), versions)
        return versions
