"""Seeding of rules: show the difference, request the approval, write the records.

The modules that read rules are imported inside functions, because DAG files import this module and are parsed often.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.connections import KAFKA

if TYPE_CHECKING:
    from airflow.sdk import Context

    from fraud_ops.verdicts.seeding import SeedPlan

APPROVERS = "fraud_rule_approvers"
"""An Airflow variable with a JSON list of the users who may approve rules."""

REQUESTS = "fraud_seed_approval"
"""The DAG with one run for each request. The id of the run is the digest of the requested records."""

APPROVE, _APPLY = "approve", "apply"
"""Task ids of the DAG of the requests."""

_OVER = frozenset({"success", "failed", "upstream_failed", "skipped"})


class SeedDiffOperator(BaseOperator):
    """Compares the seed files with the rule log, and logs the difference as a table.

    The XCom `digest` identifies the changes that need no approval. The return value has the runs of the DAG of the
    requests to trigger, one for each part that needs an approval, unless it was rejected.
    """

    def __init__(self, *, approval_dag_id: str = REQUESTS, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approval_dag_id = approval_dag_id
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from fraud_rules_airflow.hooks.rules import SeedRulesHook

        with airflow_errors():
            plan = SeedRulesHook(self.kafka_conn_id).plan()
        self.log.info("seed rules against the rule log:\n%s", plan.table())
        context["ti"].xcom_push("digest", plan.at_once.digest)
        return self._to_trigger(context, list(plan.requests))

    def _to_trigger(self, context: Context, digests: Sequence[str]) -> list[dict[str, Any]]:
        """A run that is open stays as it is. A run that is over, but did not write its changes, starts again."""
        if not digests:
            return []
        requests = self.approval_dag_id
        states = context["ti"].get_task_states(requests, task_ids=[APPROVE, _APPLY], run_ids=list(digests))
        found = []
        for digest in digests:
            tasks = states.get(digest, {})
            if tasks.get(APPROVE) == "success" and tasks.get(_APPLY) == "skipped":
                self.log.info("request %s was rejected; to request it again, clear its run of %s", digest, requests)
                continue
            self.log.info("request %s waits for an approval in %s", digest, requests)
            conf = {"request": digest}
            found.append({"trigger_run_id": digest, "conf": conf, "reset_dag_run": tasks.get(_APPLY) in _OVER})
        return found


class SeedApprovalOperator(ApprovalOperator):
    """Requests the approval of a part of the plan. The user who triggered the run cannot approve.

    `request` is the digest of the part. Without such a part, the task is skipped: files or rule log have changed.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "request")

    def __init__(self, *, request: str, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(subject="Seed rules wait for approval", body="", **kwargs)
        self.request = request
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> Any:
        part = self._part()
        requester = context["dag_run"].triggering_user_name
        may = part.approvers or json.loads(Variable.get(APPROVERS, default="[]"))
        users = [user for user in may if user != requester]
        if not users:
            raise AirflowFailException(
                f"no user can approve this change: add users other than {requester or 'the requester'} to the "
                f"Airflow variable {APPROVERS}, or to the rule's `approve`"
            )
        self.body = part.table()
        self.assigned_users = [{"id": user, "name": user} for user in users]
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if "error" in event:
            self._part()
        by = (event.get("responded_by_user") or {}).get("name")
        if by is not None and by == context["dag_run"].triggering_user_name:
            raise AirflowFailException(f"{by} requested this change and cannot approve it")
        return super().execute_complete(context, event)

    def _part(self) -> SeedPlan:
        from fraud_rules_airflow.hooks.rules import SeedRulesHook

        with airflow_errors():
            part = SeedRulesHook(self.kafka_conn_id).plan().requests.get(self.request)
        if part is None:
            raise AirflowSkipException("files or rule log have changed since the request: it is void")
        return part


class SeedApplyOperator(BaseOperator):
    """Writes the shown difference. Fails if files or rule log have changed since. Returns the versions.

    `digest` identifies the changes that need no approval, or with `approved` the part that was approved.
    """

    template_fields: Sequence[str] = ("digest",)

    def __init__(self, *, digest: Any, approved: bool = False, kafka_conn_id: str = KAFKA, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.digest = digest
        self.approved = approved
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> list[int]:
        from fraud_rules_airflow.hooks.rules import SeedRulesHook

        with airflow_errors():
            hook = SeedRulesHook(self.kafka_conn_id)
            plan = hook.plan()
            part = plan.requests.get(self.digest) if self.approved else plan.at_once
            if part is None or (part.to_write and part.digest != self.digest):
                raise AirflowFailException(
                    "files or rule log have changed since the difference was shown: run fraud_seed_rules again"
                )
            versions = hook.write(part)
        self.log.info("%s records written, with versions %s", len(versions), versions)
        return versions
