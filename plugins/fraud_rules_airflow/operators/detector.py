"""Deploy, drain, restart and more: each appends one intent and waits for its outcome without a worker slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fraud_ops.verdicts.actions import ActionKind, OperatorRequest, action_to_deploy, request_text
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.until import Outcome, Until
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.release import fingerprint
from fraud_rules_airflow.airflow_ui.links import LINKS, publish_links
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.hooks.connections import KAFKA, SPARK
from fraud_rules_airflow.hooks.detector import FraudDetectorHook, supervisor_id
from fraud_rules_airflow.operators.decisions import decide
from fraud_rules_airflow.operators.mixed_releases import report_mixed_releases
from fraud_rules_airflow.triggers.detector import OutcomeTrigger

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from fraud_rules.deploy.intent import IntentRecord

DECLARED = "declared"
"""The XCom of a deployment: the fingerprint of the declared release that it has considered."""


class DetectorOperator(BaseOperator):
    """The base of all operators for the detector: connections, limits and links."""

    operator_extra_links: Sequence[BaseOperatorLink] = LINKS
    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        kafka_conn_id: str = KAFKA,
        spark_conn_id: str = SPARK,
        limits: HealthSettings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id
        self.limits = limits

    def hook(self) -> FraudDetectorHook:
        """A hook for the detector. Each process that runs a part of the task creates its own."""
        return FraudDetectorHook(self.kafka_conn_id, self.spark_conn_id)

    def health_limits(self) -> HealthSettings:
        """The limits of the constructor, or else the configured ones. Raises ConfigError."""
        return self.limits or self.hook().settings.health

    def await_outcome(self, until: Until, record: IntentRecord, timeout: timedelta) -> None:
        """Defer until the intent has reached the state `until`, or cannot reach it."""
        self.defer(
            trigger=OutcomeTrigger(
                until.value, record.epoch, kafka_conn_id=self.kafka_conn_id, limits=asdict(self.health_limits())
            ),
            method_name="after",
            kwargs={"epoch": record.epoch},
            timeout=timeout,
        )

    def after(self, context: Context, event: dict[str, Any], epoch: int) -> dict[str, Any]:
        """Report the outcome. A failure fails the task without a retry, because that would append another intent."""
        ended = Outcome.of(event)
        with airflow_errors():
            publish_links(context, self.hook().observe(), ended.health)
        if not ended.reached:
            raise AirflowFailException(ended.said)
        self.log.info("epoch %s: %s", epoch, ended.said)
        return {"epoch": epoch, "health": ended.health.value}


class DeployOperator(DetectorOperator):
    """Requests the declared release, and adopts a detector that already runs it.

    The operator appends an intent only if the declared release has changed. A refused release fails the task, while the
    old one continues to run. Earlier code is not started; it raises MIXED_RELEASES.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        hook = self.hook()
        with airflow_errors():
            observation, declared = hook.observe_to_decide(), hook.declared_release()
            context["ti"].xcom_push(key=DECLARED, value=fingerprint(declared))
            verdict = assess_detector(observation, self.health_limits(), observation.at_ms, supervisor_id())
            action = action_to_deploy(observation, verdict, declared)
            publish_links(context, observation, verdict.health)
            self.log.info("%s: %s", action.kind, action.reason)
            refused = action.reason if action.kind is ActionKind.REFUSE else None
            report_mixed_releases(context, self.task_id, self.kafka_conn_id, observation.detector, refused)
            if action.release is None:
                return {"epoch": observation.intents.epoch, "health": verdict.health.value}
            by = request_text(OperatorRequest.START, context["dag_run"].run_id)
            record = hook.request_run(observation, action.release, action.reason, by, declared=True)
        self.await_outcome(Until.EXECUTED, record, timedelta(minutes=10))
        raise AirflowException("a deferred task does not continue")


class DecisionOperator(DetectorOperator):
    """Appends the intent for a person's request, with its reason, and waits for the outcome.

    `action` and `reason` are templates. The requester is the user who triggered the run.
    """

    template_fields: Sequence[str] = ("action", "reason", "partial_history", "accept_loss")

    def __init__(
        self,
        *,
        action: str,
        reason: str,
        partial_history: bool | str = False,
        accept_loss: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.action = action
        self.reason = reason
        self.partial_history = partial_history
        self.accept_loss = accept_loss

    def execute(self, context: Context) -> dict[str, Any]:
        hook, action = self.hook(), OperatorRequest(self.action)
        person = context["dag_run"].triggering_user_name or context["dag_run"].run_id
        if not self.reason.strip():
            raise AirflowFailException("the reason is empty: the intent records it")
        with airflow_errors():
            observation = hook.observe_to_decide()
            record = decide(
                hook,
                observation,
                action,
                self.reason,
                request_text(action, person),
                partial=_is_true(self.partial_history),
                accept_loss=_is_true(self.accept_loss),
            )
        self.log.info("epoch %s: %s, requested by %s: %s", record.epoch, action, person, self.reason)
        self.await_outcome(
            Until.STOPPED if action is OperatorRequest.DRAIN else Until.HEALTHY,
            record,
            self.execution_timeout or timedelta(minutes=30),
        )
        raise AirflowException("a deferred task does not continue")


def _is_true(value: bool | str) -> bool:
    return value is True or str(value).lower() == "true"
